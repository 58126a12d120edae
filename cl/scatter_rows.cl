#include "prelude.cl.h"
#include "kernels/scatter_rows.kh"
