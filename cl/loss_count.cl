#include "prelude.cl.h"
#include "kernels/loss_count.kh"
