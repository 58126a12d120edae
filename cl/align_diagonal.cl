#include "prelude.cl.h"
#include "kernels/align_diagonal.kh"
