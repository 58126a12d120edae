#include "prelude.cl.h"
#include "kernels/channel_stats.kh"
