// args_rows - arguments of launchers that work on rows: norms, embedding tables,
// losses, attention, optimisers, dropout.

#ifndef TT_BACKEND_CUDA_API_ARGS_ROWS_H
#define TT_BACKEND_CUDA_API_ARGS_ROWS_H

#include "backend/cuda/api/args_elements.h"
#include "graph/dtype.h"

#include <stdbool.h>
#include <stdint.h>

// Rows of n elements. mean NULL: RMS norm. Absent: beta, dbeta, plus (added to dx),
// dsum (sums of dx over rows).
typedef struct tt_cuda_norm_args {
    tt_dtype type, weight_type;
    int64_t rows, n;
    double eps;
    const void *x, *dy, *gamma, *beta, *plus;
    const float *mean_in, *rstd_in;
    float *mean, *rstd;
    void *y; // or dx
    float *dgamma, *dbeta, *dsum;
    void *scratch; // of grad_w: norm_scratch bytes
    bool accumulate;
} tt_cuda_norm_args;

typedef struct tt_cuda_embed_args {
    tt_dtype type; // of table, y and dy
    int64_t n, width;
    int64_t vocab, first, local; // the whole table, the rows here
    const int32_t *ids;
    const void *table, *dy;
    void *y;
    float *dtable;
    bool accumulate;
    void *scratch; // of the gradient: embed_scratch bytes
} tt_cuda_embed_args;

// x [batch, seq, width] + table[first + *position + index in seq]; entries of seq from
// `turn` on are `gap` further on, here and below.
typedef struct tt_cuda_position_args {
    tt_dtype type;
    int64_t batch, seq, width, rows;
    int64_t first, turn, gap;
    const int64_t *position; // NULL: 0
    const void *x, *table;
    void *y;
    float *dtable; // [rows, width], of the gradient; x is dy
    bool accumulate;
} tt_cuda_position_args;

// x [batch, seq, heads, head], pairs rotated by their position.
typedef struct tt_cuda_rotary_args {
    tt_dtype type;
    int64_t batch, seq, heads, head;
    int64_t first, turn, gap;
    double theta, factor, amplitude;    // tt_rotary_turns of ops/nn/embed.h
    double at, per_pair, per_frequency; // likewise
    bool inverse;
    const int64_t *position;
    const void *x;
    void *y;
} tt_cuda_rotary_args;

typedef struct tt_cuda_softmax_args {
    tt_dtype type;
    int64_t rows, n;
    const void *x, *dy; // x is y in the gradient
    void *y;
} tt_cuda_softmax_args;

typedef struct tt_cuda_loss_args {
    tt_dtype type;
    int64_t rows, n, row_stride; // of the logits and their gradient
    int64_t vocab, first;        // the whole vocabulary; the first column here
    int64_t ignore;
    double smoothing;
    const void *logits;
    const int32_t *labels;
    float *lse, *sum, *count, *correct;
    const float *lse_in, *dsum;
    void *dlogits;
    void *scratch; // 8 rows bytes
} tt_cuda_loss_args;

// A strided [batch, seq, heads, head]; the stride of head is 1.
typedef struct tt_cuda_heads {
    void *data;
    int64_t batch, seq, head;
} tt_cuda_heads;

typedef struct tt_cuda_attention_args {
    tt_dtype type;
    bool is_causal;
    float scale;
    int64_t batch, q_heads, kv_heads, q_len, k_len, head;
    int64_t q_first, q_turn, q_gap; // positions of queries
    int64_t k_first, k_turn, k_gap; // and of keys
    tt_cuda_heads q, k, v, o, d_o, d_q, d_k, d_v;
    float *lse;    // [batch, heads, q_len]
    void *scratch; // of the gradient: 4 batch q_heads q_len bytes
} tt_cuda_attention_args;

typedef enum tt_cuda_rule {
    TT_CUDA_SGD,
    TT_CUDA_MOMENTUM,
    TT_CUDA_ADAGRAD,
    TT_CUDA_RMSPROP,
    TT_CUDA_ADAM,
    TT_CUDA_ADAMW,
    TT_CUDA_LARS,
    TT_CUDA_LAMB_UPDATE,
    TT_CUDA_LAMB,
    TT_CUDA_EMA,
} tt_cuda_rule;

typedef struct tt_cuda_optim_args {
    tt_cuda_rule rule;
    int64_t n;
    double weight_decay, momentum, dampening, alpha, beta1, beta2, eps;
    double lr_decay, trust;
    bool nesterov, adapt;
    const void
        *w; // f32, or bf16: rounded at random, element i as number `first` + i
    bool is_random;
    uint64_t origin_hash;
    int64_t seed, first;
    const float *g, *s0, *s1;
    const float *lr, *scale, *wnorm, *unorm; // numbers; norms are squared
    const int64_t *step;
    const uint8_t *skip;
    void *w_out;
    float *s0_out, *s1_out;
    void *low; // 16 bits; NULL: none
    tt_dtype low_type;
} tt_cuda_optim_args;

typedef struct tt_cuda_dropout_args {
    tt_dtype type;
    int64_t n;
    double p;
    uint64_t origin_hash;
    // Where the part lies: factors of the shape, slowest first; `batch` is the
    // factor that counts samples, -1: none.
    int n_factors, batch;
    int64_t size[TT_CUDA_DIMS], origin[TT_CUDA_DIMS], global[TT_CUDA_DIMS];
    const int64_t *seed, *step, *first, *samples; // the last two may be NULL
    const void *x;
    void *y;
} tt_cuda_dropout_args;

#endif
