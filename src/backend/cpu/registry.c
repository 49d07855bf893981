// registry - the only file that names every kernel of the CPU backend.

#include "backend/cpu/cpu.h"

const tt_kernel_def *const tt_cpu_kernels[] = {
#define TT_KERNEL(name) &tt_kernel_##name,
#include "backend/cpu/list.h"
#undef TT_KERNEL
    NULL,
};
