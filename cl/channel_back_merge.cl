#include "prelude.cl.h"
#include "kernels/channel_back_merge.kh"
