// registry - the only file that names every kernel of the CUDA backend.

#include "backend/cuda/cuda.h"

const tt_kernel_def *const tt_cuda_kernels[] = {
#define TT_KERNELS(file) tt__cuda_##file##_kernels,
#include "backend/cuda/list.h"
#undef TT_KERNELS
    NULL,
};
