// comm_sim - what the communication operators do, with all ranks' local parts in
// one process. Naive and obvious: each group's value is assembled from the
// placements alone, then each rank's part is cut out of it. The oracle of the
// real collectives, and the wire of simulated ranks.

#ifndef TT_CHECK_COMM_SIM_H
#define TT_CHECK_COMM_SIM_H

#include "graph/op.h"

typedef struct tt_comm_site {
    const tt_op_def *op;
    const void *params; // tt_comm_params
    const tt_mesh *mesh;
    const tt_type *in_type, *out_type; // with placements
} tt_comm_site;

// in[r], out[r]: dense local buffers of rank r, for every rank of the mesh; none
// of them overlap. Sums are those of neighbours, then of pairs of these,
// and so on, each rounded to the type: as ordered collectives fold.
tt_status tt_comm_simulate(const tt_comm_site *site, const void *const *in,
                           void *const *out);

#endif
