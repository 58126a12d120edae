#include "prelude.cl.h"
#include "kernels/attention_stats.kh"
