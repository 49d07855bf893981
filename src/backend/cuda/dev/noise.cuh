// noise - operands to measure kernels on: small numbers that are no powers of two.
// Zeros would mislead: they are multiplied faster than the numbers of a training step.

#ifndef TT_BACKEND_CUDA_DEV_NOISE_CUH
#define TT_BACKEND_CUDA_DEV_NOISE_CUH

#include "backend/cuda/dev/common.cuh"

template <typename T> __global__ void noise_kernel(int64_t n, T *x)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        uint32_t h = (uint32_t)i * 2654435761u;
        h = (h ^ h >> 15) * 2246822519u;
        x[i] = from_float<T>((float)(h >> 8) / 16777216.f - 0.5f);
    }
}

// Both kinds of 8 bits, of about 1.
template <typename T> __global__ void noise_bytes(int64_t n, T *x)
{
    for (int64_t i = blockIdx.x * (int64_t)blockDim.x + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * blockDim.x) {
        uint32_t h = (uint32_t)i * 2654435761u;
        h = (h ^ h >> 15) * 2246822519u;
        x[i] = (uint8_t)((h >> 8 & 0x80) | (0x34 + (h >> 16 & 7)));
    }
}

static inline void fill_noise(tt_cuda *cuda, tt_dtype type, int64_t n, void *p)
{
    const int64_t wanted = ceil_div(n, 256);
    const unsigned blocks = (unsigned)(wanted < 1024 ? wanted : 1024);
    if (is_tiny(type))
        noise_bytes<uint8_t><<<blocks, 256, 0, cuda->stream>>>(n, (uint8_t *)p);
    else if (type == TT_BF16)
        noise_kernel<bf16><<<blocks, 256, 0, cuda->stream>>>(n, (bf16 *)p);
    else if (type == TT_F16)
        noise_kernel<f16><<<blocks, 256, 0, cuda->stream>>>(n, (f16 *)p);
    else
        noise_kernel<float><<<blocks, 256, 0, cuda->stream>>>(n, (float *)p);
}

#endif
