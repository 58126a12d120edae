#include "prelude.cl.h"
#include "kernels/winograd_weights.kh"
