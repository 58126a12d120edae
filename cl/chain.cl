#include "prelude.cl.h"
#include "kernels/chain.kh"
