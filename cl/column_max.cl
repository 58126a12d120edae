#include "prelude.cl.h"
#include "kernels/column_max.kh"
