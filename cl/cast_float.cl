#include "prelude.cl.h"
#include "kernels/cast_float.kh"
