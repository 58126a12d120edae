#include "prelude.cl.h"
#include "kernels/sequence_wrap.kh"
