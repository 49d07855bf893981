// activation - the functions that matmul applies to its result, in double.

#ifndef TT_BACKEND_REF_ACTIVATION_H
#define TT_BACKEND_REF_ACTIVATION_H

#include "ops/matmul.h"

double tt__activate(tt_activation activation, double x);

#endif
