#include "prelude.cl.h"
#include "kernels/pitch.kh"
