// table - all reference kernels, the last resort of every backend.

#ifndef TT_BACKEND_REF_TABLE_H
#define TT_BACKEND_REF_TABLE_H

#include "backend/kernel.h"

extern const tt_kernel_def *const tt_ref_kernels[]; // see tt_backend_def

#endif
