#include "prelude.cl.h"
#include "kernels/loss_masked.kh"
