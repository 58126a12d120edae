#include "prelude.cl.h"
#include "kernels/move.kh"
