// exponentials - online softmax: the largest entry of a row and its sum of
// exponentials, in one pass. The sum is relative to the largest entry so far, and is
// rescaled when a larger one comes. Two such pairs of different parts of a row can be
// joined.

#ifndef TT_BACKEND_CUDA_DEV_LOSS_EXPONENTIALS_CUH
#define TT_BACKEND_CUDA_DEV_LOSS_EXPONENTIALS_CUH

#include "backend/cuda/dev/common.cuh"

struct exponentials {
    float top, sum; // the largest x, and the sum of exp(x - top)
};

__device__ static inline void add(exponentials *e, float x)
{
    if (x > e->top) {
        e->sum = e->sum * __expf(e->top - x) + 1;
        e->top = x;
    } else if (x > -INFINITY || x != x) {
        e->sum += __expf(x - e->top);
    }
}

// The largest of a pack.
template <typename T> __device__ static inline float top_of(pack<T> p)
{
    float top = to_float(p.v[0]);
#pragma unroll
    for (int k = 1; k < pack<T>::N; k++)
        top = fmaxf(top, to_float(p.v[k]));
    return top;
}

#ifdef __CUDA_ARCH__
template <> __device__ inline float top_of<bf16>(pack<bf16> p) // in pairs
{
    __nv_bfloat162 q[4];
    memcpy(q, &p, sizeof q);
    const __nv_bfloat162 top =
        __hmax2(__hmax2(q[0], q[1]), __hmax2(q[2], q[3]));
    return fmaxf(__low2float(top), __high2float(top));
}
#endif

// The largest of a pack comes first, so that the sum is rescaled once for each pack and
// not for each element. There are no branches, so that the compiler overlaps several
// packs.
template <typename T>
__device__ static inline void add_pack(exponentials *e, pack<T> p)
{
    enum { N = pack<T>::N };
    float x[N];
    unpack(p, x);
    const float top = fmaxf(e->top, top_of(p));
    const float base = top == -INFINITY ? 0.f : top * LOG2_E;
#pragma unroll
    for (int k = 0; k < N; k++)
        x[k] = power_of_2(x[k] * LOG2_E - base);
#pragma unroll
    for (int half = N / 2; half > 0; half /= 2)
#pragma unroll
        for (int k = 0; k < half; k++)
            x[k] += x[k + half];
    e->sum = e->sum * power_of_2(e->top * LOG2_E - base) + x[0];
    e->top = top;
}

template <typename T>
__device__ static inline exponentials sum_row(const T *row, int64_t n,
                                              bool wide)
{
    typedef pack<T> P;
    exponentials e = {-INFINITY, 0};
    int64_t i = threadIdx.x;
    if (wide) {
        const int64_t whole = n / P::N * P::N;
        for (i *= P::N; i < whole; i += blockDim.x * P::N)
            add_pack(&e, *(const P *)(row + i));
        i = whole + threadIdx.x;
    }
    for (; i < n; i += blockDim.x)
        add(&e, to_float(row[i]));
    return e;
}

__device__ static inline exponentials join_warp(exponentials e)
{
    const float top = warp_max(e.top);
    const float sum =
        e.top == -INFINITY ? e.sum : e.sum * power_of_2((e.top - top) * LOG2_E);
    return {top, warp_sum(sum)};
}

// The pair of the whole block, in all threads. `room` has 32 entries; it may be written
// again only after the next barrier.
__device__ static inline exponentials join(exponentials e, exponentials *room)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warps = (blockDim.x + 31) / 32;
    e = join_warp(e);
    if (lane == 0)
        room[warp] = e;
    __syncthreads();
    return join_warp(lane < warps ? room[lane] : exponentials{-INFINITY, 0});
}

#endif
