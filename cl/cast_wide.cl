#include "prelude.cl.h"
#include "kernels/cast_wide.kh"
