#include "prelude.cl.h"
#include "kernels/ctc_norms.kh"
