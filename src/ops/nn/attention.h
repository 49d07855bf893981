// attention - softmax and scaled dot-product attention.
//
//   q [batch, seq, heads, head]   k, v [batch, seq, kv_heads, head]
//   o = softmax(scale * q k') v   lse [batch, heads, seq] = log of the softmax' sum
//
// Query head h reads key-value head h * kv_heads / heads. Causal: key j is visible
// to query i when j <= i, both counted in the whole sequence. A row without
// visible key has o = 0 and lse = -infinity.

#ifndef TT_OPS_NN_ATTENTION_H
#define TT_OPS_NN_ATTENTION_H

#include "graph/build.h"

typedef struct tt_attention_params { // attention, attention_grad
    bool causal;
    double scale; // 0: 1 / sqrt(head)
    bool wide;    // of attention: o is f32 where q, k, v are of 16 bits
} tt_attention_params;

// `lse_out` may be NULL.
tt_val tt_attention(tt_builder *b, const tt_val qkv[3],
                    const tt_attention_params *params, tt_val *lse_out);

// The scale that is meant for heads of this size.
double tt_attention_scale(const tt_attention_params *params, int64_t head);

// What q, k and v of every kind of attention must be.
tt_status tt__attention_check(const tt_op_io *io, const char *name);

// Splits the slowest factor of the heads of q and output 0, and of k and v where
// they align; the other operands are the caller's. NULL: cannot.
tt_sig *tt__attention_shard_heads(const tt_op_io *io, int axis_size,
                                  tt_sigs *sigs);

// A signature for fewer key-value heads than ranks (attention_exchange.c), if it can
// be.
void tt__attention_shard_copies(const tt_op_io *io, int axis_size, bool is_grad,
                                tt_sigs *sigs);

// Expands over a split sequence: rings (attention_ring.c).
tt_op_expand_fn tt__attention_ring, tt__attention_ring_grad;

#endif
