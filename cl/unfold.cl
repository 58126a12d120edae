#include "prelude.cl.h"
#include "kernels/unfold.kh"
