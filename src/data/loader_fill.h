// loader_fill - one sample into its place in a batch. Internal to the loader.

#ifndef TT_DATA_LOADER_FILL_H
#define TT_DATA_LOADER_FILL_H

#include "data/loader.h"
#include "data/order.h"

// What is the same for all samples; not changed after it was made.
typedef struct tt_fill_plan {
    const tt_source *source;
    tt_order_of order;
    const tt_shares *shares; // which decide in its place; NULL: it does
    tt_transform transform;
    int64_t seq, classes;
    int64_t x_count, y_count; // elements of one sample
} tt_fill_plan;

// A batch's memory.
typedef struct tt_fill_to {
    void *x;
    int32_t *y;
} tt_fill_to;

// What one thread needs beside it.
typedef struct tt_filler {
    int32_t *tokens;
    tt_image image, scratch;
} tt_filler;

// Checks that the source gives what the options ask for.
tt_status tt_fill_plan_init(tt_fill_plan *plan, const tt_source *source,
                            const tt_loader_options *options);

tt_status tt_fill_to_init(const tt_fill_plan *plan, int64_t samples,
                          tt_fill_to *to);
void tt_fill_to_fini(tt_fill_to *to);

tt_status tt_filler_init(const tt_fill_plan *plan, tt_filler *filler);
void tt_filler_fini(tt_filler *filler);

// The sample at `position` as number `i` of the batch; tt_fill_nothing: zeros, and
// labels of -1.
tt_status tt_fill_sample(const tt_fill_plan *plan, tt_filler *filler,
                         int64_t position, const tt_fill_to *to, int64_t i);
void tt_fill_nothing(const tt_fill_plan *plan, const tt_fill_to *to, int64_t i);

#endif
