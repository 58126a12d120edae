#include "prelude.cl.h"
#include "kernels/decode_mlp.kh"
