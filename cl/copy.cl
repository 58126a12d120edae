#include "prelude.cl.h"
#include "kernels/copy.kh"
