#include "prelude.cl.h"
#include "kernels/clip_control.kh"
