// feed - what a loader delivers, in the types that a graph reads.

#ifndef TT_TRAIN_FEED_H
#define TT_TRAIN_FEED_H

#include "data/loader.h"
#include "graph/graph.h"

// Writes a batch of exactly the graph's extents into x and y, dense, in the types
// of the inputs "x" and "y". Tokens and labels that the model (`classes`: its
// vocabulary or classes) does not have are an error that names the first; a label
// below 0 is left out of the loss. y may be NULL.
tt_status tt_feed_batch(const tt_graph *graph, int64_t classes,
                        const tt_batch *batch, void *x, void *y);

// Gives every label below 0 the one number that losses leave out.
void tt_feed_leave_out(const tt_graph *graph, void *y);

#endif
