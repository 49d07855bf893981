// offload - the options of the pass as a struct, and what its two files share.

#ifndef TT_PASS_OFFLOAD_H
#define TT_PASS_OFFLOAD_H

#include "graph/graph.h"

typedef struct tt_offload_params {
    bool optimiser, activations;
} tt_offload_params;

// A value that lies on the host while nobody needs it.
typedef struct tt__cargo {
    int32_t value; // a state, or one of the forward pass
    int32_t user;  // the first node that needs it back
    int32_t group; // values of one group come back together
    double bytes;
} tt__cargo;

typedef struct tt__cargos {
    tt__cargo *cargo; // in the order in which they are needed
    int32_t n, n_groups;
    int32_t *of; // per value: 1 + its cargo; 0: none
} tt__cargos;

// Finds what to offload; arrays of `c` are the caller's: n_values entries each, zeroed.
void tt__cargo_states(const tt_graph *g, tt__cargos *c);
// `root` says of each value in whose memory it lies.
void tt__cargo_activations(const tt_graph *g, const int32_t *root,
                           tt__cargos *c);

#endif
