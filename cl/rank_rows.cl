#include "prelude.cl.h"
#include "kernels/rank_rows.kh"
