// options - what lowering is told besides the graph: the rank, the micro-batches, and in
// which order things run.

#ifndef TT_PLAN_OPTIONS_H
#define TT_PLAN_OPTIONS_H

#include "graph/graph.h"

// Which bucket of gradients goes first when several are ready.
typedef enum tt_flight_order {
    TT_ORDER_FIFO,      // the one that was ready first
    TT_ORDER_PRIORITY,  // the one that the next forward pass needs first
    TT_ORDER_MAGNITUDE, // the one that was largest in the step before
    TT_N_ORDERS,
} tt_flight_order;

// A row of a pipeline's schedule, for one rank: which segment runs next. Updates have no
// rows where there is one in a table: it comes last.
typedef struct tt_lower_row {
    tt_phase phase;
    int32_t stage, micro; // micro-batches are counted over all updates
    // With several updates: the weights that are read, as updates before them since the
    // table began; and by how many updates they are carried on.
    int32_t version, ahead;
    double rate; // of an update: the factor on its learning rate; 0: none
} tt_lower_row;

typedef struct tt_lower_options {
    int32_t rank;
    int32_t n_micro; // micro-batches per step; 0 counts as 1
    // In which order segments run. There are as many slots as micro-batches in flight at
    // a time. NULL: each micro-batch forward and backward, in one slot.
    const tt_lower_row *row;
    int32_t n_rows;
    // Rows are not an order but a set: which comes next is decided while they run, with at
    // most so many micro-batches in flight (exec/driven.c). 0: they run in their order.
    int32_t bound;
    // Updates in the rows, if these do not wait until the pipe is empty; 0: one, at the
    // end. Of each stage: how many versions of its weights are kept.
    int32_t n_updates;
    const int32_t *n_versions;
    bool split_weight_grad; // weight gradients in segments of their own, after
                            // those of activations
    int64_t bucket_bytes;   // reduced together; 0: 25 MiB
    tt_flight_order order;  // of buckets
    // Collectives run at their places in the graph; gradients are bucketed, but leave
    // only after backward. For ranks whose steps differ, because their parts have
    // different shapes and kernels want different layouts.
    bool in_order;
} tt_lower_options;

#endif
