#include "prelude.cl.h"
#include "kernels/matmul.kh"
