// element - numbers of 16 and 32 bits as floats, alone and in packs of 16 bytes.
//
// Most kernels are bound by memory, and reach its rate only if every load and store of
// a thread is 16 bytes and if few instructions are spent on each element. Both need
// care: the compiler splits vector stores, loads packs byte by byte through references,
// and converts 16-bit numbers one by one. unpack, packed and store_whole are the forms
// that it compiles well. (In SASS: STG.E.128, not STG.E.)

#ifndef TT_BACKEND_CUDA_DEV_ELEMENT_CUH
#define TT_BACKEND_CUDA_DEV_ELEMENT_CUH

extern "C" {
#include "backend/cuda/api/api.h"
}

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

typedef __nv_bfloat16 bf16;
typedef __half f16;

static inline bool is_low(tt_dtype type) // 16 bits
{
    return type == TT_BF16 || type == TT_F16;
}

static inline bool is_tiny(tt_dtype type) // 8 bits
{
    return type == TT_E4M3 || type == TT_E5M2;
}

__device__ static inline float to_float(float x)
{
    return x;
}
__device__ static inline float to_float(bf16 x)
{
    return __bfloat162float(x);
}
__device__ static inline float to_float(f16 x)
{
    return __half2float(x);
}
template <typename T> __device__ static inline T from_float(float x);
template <> __device__ inline float from_float<float>(float x)
{
    return x;
}
template <> __device__ inline bf16 from_float<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}
template <> __device__ inline f16 from_float<f16>(float x)
{
    return __float2half_rn(x);
}

// 16 bytes of elements: what a thread loads or stores at once.
template <typename T> struct alignas(16) pack {
    enum { N = 16 / sizeof(T) };
    T v[N];
};

// The special function unit computes powers of 2. With LOG2_E folded into a
// multiply-add that is there anyhow, an exponential takes two instructions.
static constexpr float LOG2_E = 1.44269504088896f;

__device__ static inline float power_of_2(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

// All elements of a pack as floats, in pairs, with fewer instructions than one by one.
// The pack comes by value: through a reference the compiler makes 16 loads of a byte of
// it.
template <typename T>
__device__ static inline void unpack(pack<T> p, float *out)
{
#pragma unroll
    for (int k = 0; k < pack<T>::N; k++)
        out[k] = to_float(p.v[k]);
}

template <> __device__ inline void unpack<bf16>(pack<bf16> p, float *out)
{
    uint32_t pair[4];
    memcpy(pair, &p, sizeof pair);
#pragma unroll
    for (int k = 0; k < 4; k++) { // a bf16 is the upper half of a float
        const uint32_t low = pair[k] << 16, high = pair[k] & 0xffff0000u;
        memcpy(&out[2 * k], &low, 4);
        memcpy(&out[2 * k + 1], &high, 4);
    }
}

template <typename T> __device__ static inline pack<T> packed(const float *x)
{
    pack<T> p;
#pragma unroll
    for (int k = 0; k < pack<T>::N; k++)
        p.v[k] = from_float<T>(x[k]);
    return p;
}

#ifdef __CUDA_ARCH__
template <> __device__ inline pack<bf16> packed<bf16>(const float *x)
{
    pack<bf16> p;
#    pragma unroll
    for (int k = 0; k < 8; k += 2)
        *(__nv_bfloat162 *)&p.v[k] = __floats2bfloat162_rn(x[k], x[k + 1]);
    return p;
}
#endif

// Stores a value with one instruction, in PTX. The compiler splits a store of 16 bytes
// that was put together from pieces into stores of 4 and 2 bytes, and a warp then asks
// the L2 cache for every sector four to eight times.
template <typename S>
__device__ static inline void store_whole(void *to, const S &value)
{
#ifdef __CUDA_ARCH__
    if constexpr (sizeof value == 16) {
        uint4 w;
        memcpy(&w, &value, sizeof w);
        asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(to),
                     "r"(w.x), "r"(w.y), "r"(w.z), "r"(w.w)
                     : "memory");
        return;
    } else if constexpr (sizeof value == 8) {
        uint2 w;
        memcpy(&w, &value, sizeof w);
        asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(w.x),
                     "r"(w.y)
                     : "memory");
        return;
    }
#endif
    *(S *)to = value;
}

#endif
