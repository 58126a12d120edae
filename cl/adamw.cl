#include "prelude.cl.h"
#include "kernels/adamw.kh"
