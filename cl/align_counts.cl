#include "prelude.cl.h"
#include "kernels/align_counts.kh"
