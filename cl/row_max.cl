#include "prelude.cl.h"
#include "kernels/row_max.kh"
