// order - which sample comes when: a pure function of (seed, position).
//
//   epoch = position / n      index = permutation(seed, epoch)(position % n)
//
// The permutation is a Feistel network walked until it lands below n, so it needs
// no memory. Position is the only state of the data.

#ifndef TT_DATA_ORDER_H
#define TT_DATA_ORDER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_order_of {
    uint64_t seed;
    int64_t n; // samples in an epoch, at least 1
    bool shuffle;
} tt_order_of;

// The index of the sample at `position`, in [0, n).
int64_t tt_order_index(const tt_order_of *order, int64_t position);
int64_t tt_order_epoch(const tt_order_of *order, int64_t position);

// Windows of a stream of `tokens`: `seq` inputs and the token after each. An epoch
// begins at its own offset below `seq` when shuffled, so that windows differ
// between epochs.
int64_t tt_window_count(int64_t tokens, int64_t seq);
int64_t tt_window_first(const tt_order_of *order, int64_t tokens, int64_t seq,
                        int64_t position); // first token

#endif
