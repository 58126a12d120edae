#include "prelude.cl.h"
#include "kernels/attention_dkv.kh"
