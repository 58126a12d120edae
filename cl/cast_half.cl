#include "prelude.cl.h"
#include "kernels/cast_half.kh"
