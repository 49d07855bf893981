// bins - sums of squares that depend on no order: see bins.c.

#ifndef TT_OPS_BINS_H
#define TT_OPS_BINS_H

#include "graph/build.h"

// Bin b counts units of 2^(b * TT_BIN_BITS - TT_BIN_SHIFT); the last entry counts
// squares that are not finite.
enum { TT_BIN_BITS = 28, TT_BIN_SHIFT = 39 * TT_BIN_BITS, TT_BINS = 77 };

typedef struct tt_bins_params {
    int to; // tt_dtype
} tt_bins_params;

// Adds a square to bins.
void tt_bins_add(int64_t bins[TT_BINS], double square);
double tt_bins_sum(const int64_t bins[TT_BINS]); // what they make together

tt_val tt_square_bins(tt_builder *b, tt_val x);
tt_val tt_bins_total(tt_builder *b, const tt_val *x, int n);
tt_val tt_bins_value(tt_builder *b, tt_val bins, tt_dtype to);

#endif
