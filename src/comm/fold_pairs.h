// fold_pairs - several arrays at once, in the order of coll/pairs.h: neighbours first,
// then pairs of neighbours.

#ifndef TT_COMM_FOLD_PAIRS_H
#define TT_COMM_FOLD_PAIRS_H

#include "comm/fold.h"

#include <stdbool.h>

enum { TT_FOLD_PIECE = 16 << 10 }; // bytes that are folded at a time

// Sums of 16-bit floats are made in 32 bits and rounded once, or, with `each`, after
// every two, as by tt_fold_two.
typedef struct tt_fold_set {
    tt_fold fold;
    bool each;
    int32_t n;
    const char *const *src;
} tt_fold_set;

// Whether it rounds less often than n - 1 folds of two would.
bool tt_fold_is_wide(const tt_fold_set *set);

// dst = the fold of `bytes` at src[i] + at, i < n; dst may be any of these.
void tt_fold_pairs(const tt_fold_set *set, void *dst, int64_t at,
                   int64_t bytes);

#endif
