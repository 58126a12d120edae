#include "prelude.cl.h"
#include "kernels/decode_head.kh"
