// chunk - the options of the pass as a struct, and what its two files share.

#ifndef TT_PASS_CHUNK_H
#define TT_PASS_CHUNK_H

#include "graph/graph.h"

typedef struct tt_chunk_params {
    int64_t chunks;   // wanted number; fewer if there are fewer rows
    const char *cuts; // "batch:2 seq:4": in how many blocks ranks hold them
} tt_chunk_params;

// The last product, the loss and their gradients: nodes; -1: there is none.
typedef struct tt__head {
    int32_t product, loss, hits, grad, dx, dw, db;
    int dim; // of the logits, whose entries are dealt out to the chunks
    int64_t chunks;
} tt__head;

// Finds the head of a graph; fails with a sentence where there is none that can be
// computed in two or more chunks.
tt_status tt__head_find(const tt_graph *g, const tt_chunk_params *params,
                        tt__head *head_out);

// Whether v is an output of the graph, or the gradient of one of its values.
bool tt__host_reads(const tt_graph *g, tt_val v);

#endif
