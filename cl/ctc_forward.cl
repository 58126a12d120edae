#include "prelude.cl.h"
#include "kernels/ctc_forward.kh"
