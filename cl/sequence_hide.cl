#include "prelude.cl.h"
#include "kernels/sequence_hide.kh"
