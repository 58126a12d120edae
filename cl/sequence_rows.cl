#include "prelude.cl.h"
#include "kernels/sequence_rows.kh"
