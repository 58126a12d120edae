#include "prelude.cl.h"
#include "kernels/random.kh"
