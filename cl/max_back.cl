#include "prelude.cl.h"
#include "kernels/max_back.kh"
