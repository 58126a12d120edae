#include "prelude.cl.h"
#include "kernels/noise.kh"
