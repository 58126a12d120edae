#include "prelude.cl.h"
#include "kernels/cross_entropy.kh"
