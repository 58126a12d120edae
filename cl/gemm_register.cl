#include "prelude.cl.h"
#include "kernels/gemm_register.kh"
