#include "prelude.cl.h"
#include "kernels/cast_narrow.kh"
