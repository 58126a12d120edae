#include "prelude.cl.h"
#include "kernels/decode_qkv.kh"
