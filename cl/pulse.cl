#include "prelude.cl.h"
#include "kernels/pulse.kh"
