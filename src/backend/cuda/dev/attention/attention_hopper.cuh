// attention_hopper - what the kernels of our own for attention on compute capability 9.0
// share: heads of 64 elements as the copy engine sees them, and products of them by four
// warps. They take whole sequences of 16 bits; for gradients every head has its own keys.

#ifndef TT_BACKEND_CUDA_DEV_ATTENTION_ATTENTION_HOPPER_CUH
#define TT_BACKEND_CUDA_DEV_ATTENTION_ATTENTION_HOPPER_CUH

#include "backend/cuda/dev/hopper_products.cuh"

enum { HEAD_SIZE = 64, HEAD_ROW_BYTES = 128 };

// Heads of `len` rows, in boxes of `rows`.
static inline bool show_heads(CUtensorMap *map, const tt_cuda_attention_args &a,
                              const tt_cuda_heads &x, int64_t len, int64_t rows)
{
    return tensor_map(map, {a.type,
                            x.data,
                            4,
                            {HEAD_SIZE, len, a.q_heads, a.batch},
                            {1, x.seq, x.head, x.batch},
                            {HEAD_SIZE, rows, 1, 1}});
}

// Whether sites of this form are theirs.
static inline bool hopper_heads(const tt_cuda *cuda,
                                const tt_cuda_attention_args &a)
{
    const int64_t most = (int64_t)1 << 30;
    return is_hopper(cuda) && is_low(a.type) && a.head == HEAD_SIZE &&
           a.q_heads == a.kv_heads && a.q_len == a.k_len &&
           a.q_first == a.k_first && a.q_len < most && a.batch < most;
}

// ---- products ------------------------------------------------------------------

// Results of products are not touched above this: behind a wait for them.
template <int N> __device__ static inline void hold(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

#endif
