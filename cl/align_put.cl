#include "prelude.cl.h"
#include "kernels/align_put.kh"
