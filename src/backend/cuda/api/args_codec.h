// args_codec - arguments of the launchers of codecs, which compress what ranks send.

#ifndef TT_BACKEND_CUDA_API_ARGS_CODEC_H
#define TT_BACKEND_CUDA_API_ARGS_CODEC_H

#include "graph/dtype.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_CUDA_CODEC_FACTORS = 8 };

// Of quantize, onebit and back. Random numbers (stochastic rounding) are keyed by the
// element's index in the whole tensor, of which this is a shard, so that they do not
// depend on the number of ranks.
typedef struct tt_cuda_codec_args {
    tt_dtype type; // of x and y; of 32 or 16 bits
    int64_t n, block;
    int bits;
    const void *x; // or y
    void *y;
    const float *scale; // a block's, or two means
    float *scale_out;
    const uint8_t *code;
    uint8_t *code_out;
    const int64_t *seed, *step; // NULL: no random numbers
    uint64_t origin_hash;
    int n_factors;
    int64_t size[TT_CUDA_CODEC_FACTORS], origin[TT_CUDA_CODEC_FACTORS],
        global[TT_CUDA_CODEC_FACTORS];
} tt_cuda_codec_args;

typedef struct tt_cuda_topk_args {
    tt_dtype type;
    int64_t n, k;
    const void *x; // or the values
    const int32_t *place;
    void *y; // the values, or what they are put into
    int32_t *place_out;
    void *scratch;
} tt_cuda_topk_args;

typedef struct tt_cuda_orthogonalize_args {
    tt_dtype type;
    int64_t rows, cols;
    const void *x;
    void *y;
    void *scratch; // rows * cols doubles
} tt_cuda_orthogonalize_args;

// Of narrow and widen (ops/codec/narrow.h).
typedef struct tt_cuda_narrow_args {
    int64_t n;
    bool is_half; // fp16; else bf16
    float scale, limit;
    const float *x, *residual; // NULL: none
    float *left;               // may be `residual`
    const uint16_t *code;      // to widen
    uint16_t *code_out;
    float *y;
} tt_cuda_narrow_args;

// Of randomk_take and randomk_put.
typedef struct tt_cuda_randomk_args {
    int64_t n, k;
    const int64_t *seed, *step;
    uint64_t origin_hash;
    const float *x, *residual; // NULL: none
    float *left;               // may be `residual`
    const float *value;        // to put
    float *value_out, *y;
} tt_cuda_randomk_args;

// Of replica_seed: seeds of n replicas from `first` on; is_same: the seed of all.
typedef struct tt_cuda_seed_args {
    int64_t n, first, salt;
    bool is_same;
    const int64_t *seed;
    int64_t *out;
} tt_cuda_seed_args;

#endif
