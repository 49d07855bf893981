// any - operands of any float type, absent ones too, as doubles. For kernels that are
// rare or small: one instance takes all types, which is slower in the kernel (a switch
// for each element) and much shorter in the source and in the plug-in.

#ifndef TT_BACKEND_CUDA_DEV_ANY_CUH
#define TT_BACKEND_CUDA_DEV_ANY_CUH

#include "backend/cuda/dev/common.cuh"

__device__ static inline double get(const tt_cuda_any &x, int64_t i,
                                    double otherwise)
{
    return x.data == NULL ? otherwise : load_any(x.type, x.data, i);
}

__device__ static inline void put(const tt_cuda_any &x, int64_t i, double value)
{
    store_any(x.type, x.data, i, value);
}

#endif
