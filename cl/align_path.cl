#include "prelude.cl.h"
#include "kernels/align_path.kh"
