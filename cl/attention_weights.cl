#include "prelude.cl.h"
#include "kernels/attention_weights.kh"
