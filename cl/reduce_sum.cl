#include "prelude.cl.h"
#include "kernels/reduce_sum.kh"
