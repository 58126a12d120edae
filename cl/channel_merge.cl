#include "prelude.cl.h"
#include "kernels/channel_merge.kh"
