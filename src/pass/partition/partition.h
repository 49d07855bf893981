// partition - the options of the pass as a struct.

#ifndef TT_PASS_PARTITION_PARTITION_H
#define TT_PASS_PARTITION_PARTITION_H

#include "pass/partition/layout.h"

typedef struct tt_partition_params {
    const char *mesh;       // "data:2 tensor:4"
    const char *layout;     // "batch:data heads:tensor", see layout.h
    const tt_layout *rules; // if not NULL, instead of the text `layout`
    const char
        *zigzag;  // the axis along which `seq` goes zigzag; NULL, "": none
    int way;      // tt_way: of operators that need a whole sequence; 0: ring
    int64_t zero; // 0: none, 1: optimiser state, 2: and gradients, 3: and
                  // weights are split over the ranks of zero_axis
    const char *zero_axis; // NULL: "data"
    // Tensors that together are at most this share of what one rank holds of the
    // weights stay whole: many small messages would cost more than they save.
    double zero_small;
    // Gradients are sums over the ranks of zero_axis before they are summed over
    // micro-batches, so that the order of these sums depends on no level of ZeRO.
    bool canonical;
    // Gradients stay terms along zero_axis until the update: somebody sends codes of them.
    bool own_gradients;
    // Outputs stay at the stages where they are made: these do not wait for each other.
    bool stage_outputs;
    bool wide; // terms of sums in the forward pass are not rounded (wide.c)
} tt_partition_params;

#endif
