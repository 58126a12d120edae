#include "prelude.cl.h"
#include "kernels/square_sum.kh"
