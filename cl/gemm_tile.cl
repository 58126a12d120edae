#include "prelude.cl.h"
#include "kernels/gemm_tile.kh"
