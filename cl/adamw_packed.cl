#include "prelude.cl.h"
#include "kernels/adamw_packed.kh"
