#include "prelude.cl.h"
#include "kernels/unmel.kh"
