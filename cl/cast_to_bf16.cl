#include "prelude.cl.h"
#include "kernels/cast_to_bf16.kh"
