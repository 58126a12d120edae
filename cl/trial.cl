#include "prelude.cl.h"
#include "kernels/trial.kh"
