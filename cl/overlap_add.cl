#include "prelude.cl.h"
#include "kernels/overlap_add.kh"
