#include "prelude.cl.h"
#include "kernels/stft.kh"
