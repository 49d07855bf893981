// norm - what the files of layer norm and RMS norm share.
//
//   norm       forward, and gradients in two kernels (of x, of the weights), for rows
//              of any length
//   norm_grad  all gradients in one pass, for rows that fit into registers
//
// Batch norm is another thing (statistics over rows, not over columns): batch_norm*.

#ifndef TT_BACKEND_CUDA_DEV_NORM_NORM_CUH
#define TT_BACKEND_CUDA_DEV_NORM_NORM_CUH

#include "backend/cuda/dev/common.cuh"

enum { WARPS = 2 };

struct weights {
    tt_dtype type;
    const void *p;
};

__device__ static inline float weight(const weights &w, int64_t i, float none)
{
    if (w.p == NULL)
        return none;
    return w.type == TT_BF16  ? to_float(((const bf16 *)w.p)[i])
           : w.type == TT_F16 ? to_float(((const f16 *)w.p)[i])
                              : ((const float *)w.p)[i];
}

template <int N, typename W>
__device__ static inline void weights_packed(const W *w, float *out)
{
    struct alignas(sizeof(W) * N) part {
        W v[N];
    };
    const part p = *(const part *)w;
#pragma unroll
    for (int k = 0; k < N; k++)
        out[k] = to_float(p.v[k]);
}

// N weights side by side; n is a multiple of N.
template <int N>
__device__ static inline void weights_at(const weights &w, int64_t i,
                                         float none, float *out)
{
    if (w.p == NULL) {
#pragma unroll
        for (int k = 0; k < N; k++)
            out[k] = none;
    } else if (w.type == TT_BF16) {
        weights_packed<N>((const bf16 *)w.p + i, out);
    } else if (w.type == TT_F16) {
        weights_packed<N>((const f16 *)w.p + i, out);
    } else {
#pragma unroll
        for (int k = 0; k < N; k += 4)
            *(float4 *)(out + k) =
                *(const float4 *)((const float *)w.p + i + k);
    }
}

template <typename T> static inline bool is_wide(const tt_cuda_norm_args *a)
{
    return a->n % pack<T>::N == 0 && is_aligned(a->x) && is_aligned(a->dy) &&
           is_aligned(a->y) && is_aligned(a->gamma) && is_aligned(a->beta) &&
           is_aligned(a->plus);
}

// Scratch bytes of the gradient in one pass.
int64_t norm_grad_scratch(const tt_cuda_norm_args *args);

// Adds up the sums of chunks of rows, scratch[chunk, kinds, n], in their order:
// dgamma, dbeta, dsum.
const char *norm_join(tt_cuda *cuda, const tt_cuda_norm_args *args,
                      int64_t n_chunks, int kinds);

#endif
