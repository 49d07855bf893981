// attention - scaled dot-product attention without a T x T tensor in memory.
//
//   s(i,j) = scale * q(i).k(j)   for the keys that query i may see, else -inf
//   lse(i) = log sum_j exp s(i,j)     o(i) = sum_j exp(s(i,j) - lse(i)) v(j)
//
// Causal: key j is visible to query i iff its position is at most i's. Position i
// is offset + i, and gap more from i = turn on: a part may consist of two runs. A
// query that sees no key has o = 0, lse = -inf and passes no gradient on.
//
//   flops     forward 4 T Tk D, backward 10 T Tk D per head (half if causal)
//   scratch   scratch_bytes(); O(T D) per thread, never T x T
//   bits      do not depend on the number of threads
//   source    Dao et al. 2022 (FlashAttention)

#ifndef TT_BACKEND_CPU_SIMD_ATTENTION_ATTENTION_H
#define TT_BACKEND_CPU_SIMD_ATTENTION_ATTENTION_H

#include "backend/cpu/simd/type.h"

#include <stdbool.h>
#include <stdint.h>

// Element (b, h, t, d) is data[b*batch + h*head + t*row + d], in elements of the
// call's type: a slice of packed B,T,3,H,D is read or written where it lies.
typedef struct tt_simd_heads {
    void *data;
    int64_t batch, head, row;
} tt_simd_heads;

typedef struct tt_simd_attention_args {
    tt_simd_type type; // of all views
    bool is_wide;      // forward writes o in fp32
    bool is_causal;
    float scale;
    int64_t n_batch, q_heads, kv_heads; // q_heads is a multiple of kv_heads
    int64_t q_len, k_len, head_dim;     // head_dim at most 256
    int64_t q_offset, k_offset;
    int64_t q_turn, q_gap, k_turn, k_gap; // gap 0: one run; decode: always
    tt_simd_heads q, k, v, o;    // forward writes o; backward reads all four
    float *lse;                  // [n_batch, q_heads, q_len]; as o; forward:
                                 // NULL where nobody wants it
    tt_simd_heads d_o;           // backward reads
    tt_simd_heads d_q, d_k, d_v; // backward writes
    int threads;                 // at most this many are used
    void *scratch;               // 64-byte aligned
} tt_simd_attention_args;

typedef int64_t tt_simd_attention_bytes_fn(const tt_simd_attention_args *args);
typedef void tt_simd_attention_fn(const tt_simd_attention_args *args);

// Backward takes the o and lse of the whole row, so that a block of keys of a
// longer row (ring attention) gives its share of the gradients. Decode is a causal
// forward for few queries over many keys, for any head_dim; it leaves lse alone,
// and every query sees at least one key.
typedef struct tt_simd_attention {
    tt_simd_attention_bytes_fn *forward_scratch_bytes; // sizes and type only
    tt_simd_attention_fn *forward;
    tt_simd_attention_bytes_fn *decode_scratch_bytes; // k_len: the most keys
    tt_simd_attention_fn *decode;
    tt_simd_attention_bytes_fn *backward_scratch_bytes;
    tt_simd_attention_fn *backward;
} tt_simd_attention;

#endif
