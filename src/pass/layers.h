// layers - cuts the chain of a model's layers into chunks, the stages of a pipeline.
//
// A chunk is a run of forward nodes in the graph's order. Nodes get its number as their
// stage before the graph is differentiated; gradients and updates inherit it. Where a
// chunk lies is decided later, by the partition (pass/partition/stages.c).

#ifndef TT_PASS_LAYERS_H
#define TT_PASS_LAYERS_H

#include "graph/build.h"

// What was chosen. Of the first chunk, nothing crosses into it.
typedef struct tt_layers_chunk {
    const char
        *name; // where it begins, in the form that `names` has; "": the first
    int64_t bytes; // that cross into it, of one micro-batch over all ranks
} tt_layers_chunk;

typedef struct tt_layers_cut {
    int32_t n_chunks; // 0 and 1: not cut
    // Names of layers, one fewer than chunks, separated by blanks or commas: each begins
    // a chunk; h.3+4: four operators later. NULL: where the chunks' modelled seconds are
    // the most even.
    const char *names;
    // Filled in, with n_chunks elements, whose names lie in the arena. NULL: not wanted.
    tt_layers_chunk *chunk;
    tt_arena *arena;
} tt_layers_cut;

// Sets the stages of all nodes that b has. Fails in a sentence when the model has too few
// places to cut it, or a name is not that of a layer.
tt_status tt_layers_assign(tt_builder *b, const tt_layers_cut *cut);

// Modelled seconds of a node, forward only, on a machine of round numbers. Only ratios
// count.
double tt_layers_seconds(const tt_graph *g, const tt_node *node);

#endif
