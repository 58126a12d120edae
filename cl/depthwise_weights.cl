#include "prelude.cl.h"
#include "kernels/depthwise_weights.kh"
