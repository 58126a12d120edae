#include "prelude.cl.h"
#include "kernels/channel_back.kh"
