// registry - the table of all reference kernels.

#include "backend/ref/ref.h"
#include "backend/ref/table.h"

const tt_kernel_def *const tt_ref_kernels[] = {
#define TT_KERNELS(file) tt__ref_##file##_kernels,
#include "backend/ref/list.h"
#undef TT_KERNELS
    NULL,
};
