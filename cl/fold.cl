#include "prelude.cl.h"
#include "kernels/fold.kh"
