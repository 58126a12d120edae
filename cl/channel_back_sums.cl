#include "prelude.cl.h"
#include "kernels/channel_back_sums.kh"
