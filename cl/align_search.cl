#include "prelude.cl.h"
#include "kernels/align_search.kh"
