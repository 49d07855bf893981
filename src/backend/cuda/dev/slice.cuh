// slice - V neighbouring channels as one value: 16 bytes where channels come in packs,
// else one element. Kernels for images are written once, for slices, and instantiated
// for both.

#ifndef TT_BACKEND_CUDA_DEV_SLICE_CUH
#define TT_BACKEND_CUDA_DEV_SLICE_CUH

#include "backend/cuda/dev/common.cuh"

template <typename T, int V> struct alignas(sizeof(T) * V) slice {
    T v[V];
};

template <typename T, int V>
__device__ static inline slice<T, V> load(const void *p, int64_t at)
{
    return *(const slice<T, V> *)((const T *)p + at);
}

template <typename T, int V>
__device__ static inline void store(void *p, int64_t at, const slice<T, V> &s)
{
    store_whole((T *)p + at, s);
}

template <typename T, int V>
__device__ static inline void unpack(const slice<T, V> &s, float *out)
{
    if constexpr (V == pack<T>::N) {
        pack<T> p;
        memcpy(&p, &s, sizeof p);
        unpack(p, out);
    } else {
#pragma unroll
        for (int k = 0; k < V; k++)
            out[k] = to_float(s.v[k]);
    }
}

template <typename T, int V>
__device__ static inline slice<T, V> sliced(const float *x)
{
    slice<T, V> s;
    if constexpr (V == pack<T>::N) {
        const pack<T> p = packed<T>(x);
        memcpy(&s, &p, sizeof s);
    } else {
#pragma unroll
        for (int k = 0; k < V; k++)
            s.v[k] = from_float<T>(x[k]);
    }
    return s;
}

#ifdef __CUDA_ARCH__
__device__ static inline __nv_bfloat162 two_of(const bf16 *p)
{
    return *(const __nv_bfloat162 *)p;
}
__device__ static inline __half2 two_of(const f16 *p)
{
    return *(const __half2 *)p;
}
#endif

// A mask of ReLU for two elements of 16 bits at once: all bits set where y > 0. NaN
// counts as > 0 if KEEPS. By pairs a mask takes two instructions; one by one it takes
// several.
template <bool KEEPS, typename T>
__device__ static inline unsigned above_zero(const T *y)
{
#ifdef __CUDA_ARCH__
    const auto two = two_of(y);
    const decltype(two) zero = {};
    return KEEPS ? ~__hle2_mask(two, zero) : __hgt2_mask(two, zero);
#else
    unsigned bits = 0;
    for (int k = 0; k < 2; k++) {
        const float f = to_float(y[k]);
        bits |= (KEEPS ? !(f <= 0) : f > 0) ? 0xffffu << 16 * k : 0;
    }
    return bits;
#endif
}

template <typename T>
__device__ static inline void mask_two(T *x, unsigned bits)
{
    unsigned word;
    memcpy(&word, x, sizeof word);
    word &= bits;
    memcpy(x, &word, sizeof word);
}

// The gradient of ReLU: x where y > 0, else 0. Where y is NaN: x if KEEPS, else 0.
template <bool KEEPS, typename T, int V>
__device__ static inline slice<T, V> where_above(slice<T, V> x,
                                                 const slice<T, V> &y)
{
    if constexpr (sizeof(T) == 2 && V % 2 == 0) {
#pragma unroll
        for (int k = 0; k < V; k += 2)
            mask_two(&x.v[k], above_zero<KEEPS>(&y.v[k]));
    } else {
#pragma unroll
        for (int k = 0; k < V; k++) {
            const float f = to_float(y.v[k]);
            if (KEEPS ? f <= 0 : !(f > 0))
                x.v[k] = from_float<T>(0.f);
        }
    }
    return x;
}

#endif
