// codec - gradient compression: values in fewer bytes, for the wire.
//
// Encoders see a tensor as a vector, in the order of its elements, cut into blocks; the
// last block may be shorter. All of them lose something. What is lost must be added to
// the next value (error feedback) or be zero on average (random rounding), or training
// drifts away.
//
//   quantize        a scale per block; codes of 8 or 4 bits, u8
//   topk            the largest entries; where they were
//   onebit          two means per block; signs, u8
//   orthogonalize   what PowerSGD needs beside products of matrices

#ifndef TT_OPS_CODEC_CODEC_H
#define TT_OPS_CODEC_CODEC_H

#include "graph/build.h"

typedef struct tt_quantize_params {
    int64_t bits, block;
} tt_quantize_params;

typedef struct tt_topk_params {
    double ratio; // of the entries, that are kept; at least one is
} tt_topk_params;

typedef struct tt_onebit_params {
    int64_t block;
} tt_onebit_params;

// Levels on each side of 0.
static inline int64_t tt_quantize_levels(int64_t bits)
{
    return ((int64_t)1 << (bits - 1)) - 1;
}

// How many of n entries are kept.
int64_t tt_topk_count(const tt_topk_params *params, int64_t n);

// One round of PowerSGD (Vogels et al. 2019): m [rows, cols] is approximated by factors
// of rank r, starting from the factor q [cols, r] of the round before. Only p and q are
// sent.
typedef struct tt_low_rank {
    tt_val p;      // [rows, r], orthonormal columns
    tt_val q;      // [cols, r]
    tt_val approx; // p q'
} tt_low_rank;
tt_low_rank tt_powersgd(tt_builder *b, tt_val m, tt_val q);

#endif
