#include "prelude.cl.h"
#include "kernels/column_sum.kh"
