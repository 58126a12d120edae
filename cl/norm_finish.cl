#include "prelude.cl.h"
#include "kernels/norm_finish.kh"
