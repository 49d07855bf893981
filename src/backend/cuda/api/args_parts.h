// args_parts - arguments of launchers whose operands may have any float type and are
// computed in double: parts of norms and losses that ranks share, LSTM, mixture of
// experts, decoding. They are rare or small, so one kernel for all types is enough.

#ifndef TT_BACKEND_CUDA_API_ARGS_PARTS_H
#define TT_BACKEND_CUDA_API_ARGS_PARTS_H

#include "backend/cuda/api/args_elements.h"
#include "graph/dtype.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_cuda_any {
    tt_dtype type;
    void *data; // NULL: absent
} tt_cuda_any;

enum { TT_CUDA_PARTS_IN = 8, TT_CUDA_PARTS_OUT = 3, TT_CUDA_MSE_BLOCKS = 256 };

// Rows of n columns, of which the whole has `whole` and this rank those from `first`
// on. Operands in the order of the operator's.
typedef struct tt_cuda_parts_args {
    tt_cuda_any in[TT_CUDA_PARTS_IN], out[TT_CUDA_PARTS_OUT];
    int64_t rows, n, whole, first;
    int power;
    double eps, smoothing;
    int64_t ignore;
    void *scratch; // mse: 16 TT_CUDA_MSE_BLOCKS bytes; loss_join: none
} tt_cuda_parts_args;

// Results [kept...], each over entries [reduced...] of x: extents, strides in x.
typedef struct tt_cuda_project_args {
    int n_kept, n_reduced;
    int64_t kept[TT_CUDA_DIMS], kept_stride[TT_CUDA_DIMS];
    int64_t reduced[TT_CUDA_DIMS], reduced_stride[TT_CUDA_DIMS];
    bool is_max, accumulate;
    double by;
    tt_cuda_any x, y, dy, dx; // dy, dx: of reduce_max_grad
} tt_cuda_project_args;

// One step of an LSTM: gates [batch, 4 hidden], others [batch, hidden].
typedef struct tt_cuda_lstm_args {
    int64_t batch, hidden;
    const float *sum;      // h(t-1) w^T; or the gradient of h from step t + 1
    tt_cuda_any xg, bias;  // added to it
    tt_cuda_any c_prev, c; // c: result, or read backward
    tt_cuda_any h, gates;  // results, or gates read backward
    tt_cuda_any dh, dc;    // backward, absent: zero
    tt_cuda_any dgates, dc_prev;
    float *dc_carry; // backward: from step t + 1, becomes that of c_prev
} tt_cuda_lstm_args;

// x [batch, tokens, width], z [experts here, batch, slots, width], place and gate
// [batch, tokens, choices].
typedef struct tt_cuda_moe_args {
    int64_t batch, tokens, choices, width;
    int64_t experts, slots, first, whole; // experts here; of them all
    tt_cuda_any x, z, gate;               // gate absent: 1
    const int32_t *place;
} tt_cuda_moe_args;

// logits [groups, tokens, experts].
typedef struct tt_cuda_route_args {
    int64_t groups, tokens, experts, choices, slots;
    tt_cuda_any logits, gate, balance; // gate, balance: results or gradients
    int32_t *place;
    tt_cuda_any dlogits;
    void *scratch; // route_scratch bytes
} tt_cuda_route_args;

// q [batch, n, heads, head] on caches [batch, context, kv_heads, head].
typedef struct tt_cuda_cached_args {
    tt_dtype type;
    int64_t batch, n, heads, kv_heads, head, context;
    double scale;
    const void *q, *k, *v; // cache_write: v are the new rows
    const int64_t *position;
    void *o; // cache_write: the cache
} tt_cuda_cached_args;

// o [batch, seq, heads, head], lse [batch, heads, seq].
typedef struct tt_cuda_merge_args {
    int64_t batch, seq, heads, head;
    tt_cuda_any o1, lse1, o2, lse2, o, lse;
} tt_cuda_merge_args;

#endif
