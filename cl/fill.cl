#include "prelude.cl.h"
#include "kernels/fill.kh"
