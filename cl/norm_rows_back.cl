#include "prelude.cl.h"
#include "kernels/norm_rows_back.kh"
