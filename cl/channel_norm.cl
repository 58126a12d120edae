#include "prelude.cl.h"
#include "kernels/channel_norm.kh"
