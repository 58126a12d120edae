#include "prelude.cl.h"
#include "kernels/softmax.kh"
