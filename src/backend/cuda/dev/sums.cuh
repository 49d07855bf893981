// sums - sums and maxima over a warp (shuffles) and over a block (shared memory), in a
// fixed order, so that they repeat bit by bit.

#ifndef TT_BACKEND_CUDA_DEV_SUMS_CUH
#define TT_BACKEND_CUDA_DEV_SUMS_CUH

#include <cuda_runtime.h>

template <typename A> __device__ static inline A warp_sum(A x)
{
    for (int k = 16; k > 0; k /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, k);
    return x;
}

__device__ static inline float warp_max(float x)
{
    for (int k = 16; k > 0; k /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, k));
    return x;
}

// The sum over a block of up to 1024 threads, in every thread; `room` has 32 entries.
template <typename A> __device__ static inline A block_sum(A x, A *room)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warps = (blockDim.x + 31) / 32;
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    return warp_sum(lane < warps ? room[lane] : (A)0);
}

__device__ static inline float block_max(float x, float *room)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warps = (blockDim.x + 31) / 32;
    x = warp_max(x);
    __syncthreads();
    if (lane == 0)
        room[warp] = x;
    __syncthreads();
    return warp_max(lane < warps ? room[lane] : -INFINITY);
}

#endif
