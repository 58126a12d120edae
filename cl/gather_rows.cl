#include "prelude.cl.h"
#include "kernels/gather_rows.kh"
