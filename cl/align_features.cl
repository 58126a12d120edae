#include "prelude.cl.h"
#include "kernels/align_features.kh"
