// attention_hopper - what our flash-attention kernels for compute capability 9.0 share.
//
// They do heads of 64 elements of 16 bits, with whole sequences of queries and keys:
//
//   attention_hopper.cu        forward: o and lse
//   attention_hopper_stats.cu  before backward: lse to base 2, and sum(o d_o), by query
//   attention_hopper_grad.cu   backward: d_q, d_k, d_v in one pass over the scores
//   attention_hopper_join.cu   after backward: d_q of heads that several blocks shared
//
// Forward also takes grouped queries (several heads with the same keys); backward does
// not. Sites of any other form go to cuDNN or to the plain kernels (attention.cu).
//
// Both big kernels are persistent and warp-specialised: a block stays on its SM, one
// thread feeds it by TMA through mbarriers, and warpgroups multiply with WGMMA. Scores
// exist in registers only; no matrix of positions x positions is ever written.

#ifndef TT_BACKEND_CUDA_DEV_ATTENTION_ATTENTION_HOPPER_CUH
#define TT_BACKEND_CUDA_DEV_ATTENTION_ATTENTION_HOPPER_CUH

#include "backend/cuda/dev/hopper_products.cuh"

enum { HEAD_SIZE = 64, HEAD_ROW_BYTES = 128 };

// A TMA descriptor of heads of `len` rows, copied in boxes of `rows`.
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

// Whether the gradient's kernels take sites of this form.
static inline bool hopper_heads(const tt_cuda *cuda,
                                const tt_cuda_attention_args &a)
{
    const int64_t most = (int64_t)1 << 30;
    return is_hopper(cuda) && is_low(a.type) && a.head == HEAD_SIZE &&
           a.q_heads == a.kv_heads && a.q_len == a.k_len &&
           a.q_first == a.k_first && a.q_len < most && a.batch < most;
}

// ---- products ------------------------------------------------------------------

// WGMMA writes d asynchronously, which the compiler does not know. Called after the
// wait, this keeps it from moving reads of d to before the wait.
template <int N> __device__ static inline void hold(float (&d)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("" : "+f"(d[i])::"memory");
}

#endif
