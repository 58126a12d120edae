#include "prelude.cl.h"
#include "kernels/cast_from_bf16.kh"
