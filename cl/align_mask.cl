#include "prelude.cl.h"
#include "kernels/align_mask.kh"
