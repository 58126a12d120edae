#include "prelude.cl.h"
#include "kernels/transpose.kh"
