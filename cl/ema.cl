#include "prelude.cl.h"
#include "kernels/ema.kh"
