// gradops - the operators that building and differentiation emit by themselves.

#ifndef TT_OPS_GRADOPS_H
#define TT_OPS_GRADOPS_H

#include "graph/build.h"

extern const tt_grad_ops tt_grad_ops_default;

#endif
