#include "prelude.cl.h"
#include "kernels/attention.kh"
