#include "prelude.cl.h"
#include "kernels/align_steps.kh"
