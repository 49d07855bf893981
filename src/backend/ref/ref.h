// ref - declares every reference kernel of list.h, so that a definition which
// drifts from its type is a compile error.

#ifndef TT_BACKEND_REF_REF_H
#define TT_BACKEND_REF_REF_H

#include "backend/kernel.h"

#define TT_KERNEL(name) extern const tt_kernel_def tt_kernel_##name;
#include "backend/ref/list.h"
#undef TT_KERNEL

#endif
