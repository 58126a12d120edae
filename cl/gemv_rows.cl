#include "prelude.cl.h"
#include "kernels/gemv_rows.kh"
