#include "prelude.cl.h"
#include "kernels/decode_embed.kh"
