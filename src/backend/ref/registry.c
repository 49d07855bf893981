// registry - the only file that names every reference kernel.

#include "backend/ref/table.h"

#define TT_KERNEL(name) extern const tt_kernel_def tt_kernel_##name;
#include "backend/ref/list.h"
#undef TT_KERNEL

const tt_kernel_def *const tt_ref_kernels[] = {
#define TT_KERNEL(name) &tt_kernel_##name,
#include "backend/ref/list.h"
#undef TT_KERNEL
    NULL,
};
