// comm_sim - what the communication operators do, with all ranks' parts in one
// process.
//
// It is the definition of each collective, as plain as possible: first the value of a
// group of ranks is assembled from the placements alone, then each rank's part is cut
// out of it. No ring, no tree, no message.
//
//   parts of in_type          whole value           parts of out_type
//   [a0 a1] [a2 a3]  ------>  a0 a1 a2 a3  ------>  [a0 a1 a2 a3] [a0 a1 a2 a3]
//     split, split             assemble              all_gather: both whole
//
// It is the oracle of the real collectives (law_wire), and the wire of the
// interpreter's simulated ranks.

#ifndef TT_INTERP_COMM_SIM_H
#define TT_INTERP_COMM_SIM_H

#include "graph/op.h"

typedef struct tt_comm_site {
    const tt_op_def *op;
    const void *params; // tt_comm_params
    const tt_mesh *mesh;
    const tt_type *in_type, *out_type; // with placements
} tt_comm_site;

// in[r] and out[r] are dense local buffers of rank r, for every rank of the mesh; none
// of them overlap. Sums are made in pairs: neighbours, then pairs of neighbours, and
// so on, each rounded to the type. Ordered collectives fold in the same order, so even
// bits agree.
tt_status tt_comm_simulate(const tt_comm_site *site, const void *const *in,
                           void *const *out);

#endif
