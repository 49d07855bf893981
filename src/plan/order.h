// order - in which order a plan's segments run, and which weights they read.

#ifndef TT_PLAN_ORDER_H
#define TT_PLAN_ORDER_H

#include <stdbool.h>
#include <stdint.h>

// Of the rows with its segment in a step, the first writes sums, later ones add to them;
// with the last they are complete.
typedef struct tt_order {
    int32_t segment, micro, slot;
    // Which weights are read: 0, the newest; else a place of older ones. Of an update: the
    // place where the weights that it replaces are kept; 0: nowhere.
    int32_t place;
    int32_t ahead; // updates by which the weights are carried on
    double rate;   // of an update: the factor on its learning rate; 0: none
    bool is_first, is_last;
    bool is_new; // the first row of its micro-batch: it takes the slot
    bool ends_step;
} tt_order;

// A buffer that updates write and other rows read, and the place of each older version:
// `place[p - 1]` is the buffer of place p.
typedef struct tt_stash {
    int32_t buffer, stage;
    int32_t n_places;
    const int32_t *place;
} tt_stash;

#endif
