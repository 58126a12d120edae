#include "prelude.cl.h"
#include "kernels/ctc_backward.kh"
