#include "prelude.cl.h"
#include "kernels/add.kh"
