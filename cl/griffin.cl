#include "prelude.cl.h"
#include "kernels/griffin.kh"
