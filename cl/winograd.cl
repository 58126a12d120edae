#include "prelude.cl.h"
#include "kernels/winograd.kh"
