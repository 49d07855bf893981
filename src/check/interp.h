// interp - runs a graph node by node on simulated ranks, each value in a dense
// buffer of its own, with the reference kernels: the slow, obvious executor that
// laws trust. Collectives are done across the ranks' buffers in this process.

#ifndef TT_CHECK_INTERP_H
#define TT_CHECK_INTERP_H

#include "base/status.h"
#include "graph/graph.h"

typedef struct tt_interp tt_interp;

// One simulated rank per coordinate of the graph's mesh. The graph is borrowed.
tt_status tt_interp_create(const tt_graph *g, tt_interp **interp_out);
void tt_interp_destroy(tt_interp *it);

int tt_interp_ranks(const tt_interp *it);

// The local buffer of a value: leaves are written here before a run.
void *tt_interp_data(tt_interp *it, int rank, tt_val v);
const tt_local *tt_interp_local(const tt_interp *it, int rank, tt_val v);

// Writes the whole value (global, dense doubles) to every rank as placed (a
// Partial value goes to coordinate 0, zero elsewhere; max: minus infinity).
void tt_interp_write(tt_interp *it, tt_val v, const double *whole);

// Joins the ranks' parts into the whole value; Partial is reduced. False when
// replicas that must be equal are not (the difference is the law's business).
bool tt_interp_read(tt_interp *it, tt_val v, double *whole);

// Behind the value lie its first elements again, where NaN was: a kernel that reads
// on would find them, and must not.
void tt_interp_echo(tt_interp *it, tt_val v);

tt_status tt_interp_run(tt_interp *it);

// A step of `n_micro` micro-batches as the executor runs it: forward and backward
// for each, with sums adding up, then the update; new versions of states replace
// them. `feed` writes the inputs of a micro-batch.
typedef tt_status tt_interp_feed_fn(void *user, tt_interp *it, int micro);
tt_status tt_interp_step(tt_interp *it, int n_micro, tt_interp_feed_fn *feed,
                         void *user);

#endif
