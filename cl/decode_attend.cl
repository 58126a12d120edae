#include "prelude.cl.h"
#include "kernels/decode_attend.kh"
