#include "prelude.cl.h"
#include "kernels/gemm_plain.kh"
