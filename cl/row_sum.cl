#include "prelude.cl.h"
#include "kernels/row_sum.kh"
