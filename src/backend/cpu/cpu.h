// cpu - what the kernels of this folder share: the device, the kernels' names.

#ifndef TT_BACKEND_CPU_CPU_H
#define TT_BACKEND_CPU_CPU_H

#include "backend/backend.h"
#include "backend/cpu/dnnl/dnnl.h"

#define TT_KERNELS(file) extern const tt_kernel_def tt__cpu_##file##_kernels[];
#include "backend/cpu/list.h"
#undef TT_KERNELS

extern const tt_kernel_def *const tt_cpu_kernels[]; // see tt_backend_def

static inline tt__dnnl *tt__cpu_dnnl(const tt_backend *backend)
{
    return backend->device;
}

// f32 or bf16: what the fast kernels compute with.
bool tt__cpu_is_fast(tt_dtype dtype);

// 0: dense.
void tt__operand_set_layout(tt_operand *o, int32_t layout);

#endif
