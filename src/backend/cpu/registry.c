// registry - the only file that names every kernel of the CPU backend.

#include "backend/cpu/cpu.h"

const tt_kernel_def *const tt_cpu_kernels[] = {
#define TT_KERNELS(file) tt__cpu_##file##_kernels,
#include "backend/cpu/list.h"
#undef TT_KERNELS
    NULL,
};
