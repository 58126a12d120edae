#include "prelude.cl.h"
#include "kernels/dropout.kh"
