#include "prelude.cl.h"
#include "kernels/mel.kh"
