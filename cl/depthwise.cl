#include "prelude.cl.h"
#include "kernels/depthwise.kh"
