#include "prelude.cl.h"
#include "kernels/attention_dq.kh"
