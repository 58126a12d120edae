#include "prelude.cl.h"
#include "kernels/ctc_gradient.kh"
