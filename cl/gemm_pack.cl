#include "prelude.cl.h"
#include "kernels/gemm_pack.kh"
