// registry - all kernels of the CUDA backend, from list.h, in the order in which they
// are asked whether they can do a site.

#include "backend/cuda/cuda.h"

const tt_kernel_def *const tt_cuda_kernels[] = {
#define TT_KERNELS(file) tt__cuda_##file##_kernels,
#include "backend/cuda/list.h"
#undef TT_KERNELS
    NULL,
};
