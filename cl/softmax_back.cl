#include "prelude.cl.h"
#include "kernels/softmax_back.kh"
