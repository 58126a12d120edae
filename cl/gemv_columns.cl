#include "prelude.cl.h"
#include "kernels/gemv_columns.kh"
