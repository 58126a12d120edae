#include "prelude.cl.h"
#include "kernels/gemm_finish.kh"
