#include "prelude.cl.h"
#include "kernels/istft.kh"
