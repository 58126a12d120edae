#include "prelude.cl.h"
#include "kernels/decode_widen.kh"
