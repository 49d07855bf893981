// registry - the table of all reference kernels.

#include "backend/ref/ref.h"
#include "backend/ref/table.h"

const tt_kernel_def *const tt_ref_kernels[] = {
#define TT_KERNEL(name) &tt_kernel_##name,
#include "backend/ref/list.h"
#undef TT_KERNEL
    NULL,
};
