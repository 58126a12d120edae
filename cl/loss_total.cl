#include "prelude.cl.h"
#include "kernels/loss_total.kh"
