#include "prelude.cl.h"
#include "kernels/align_tokens.kh"
