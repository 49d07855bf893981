// interp - the slow, obvious executor that laws trust.
//
// It runs a graph node by node, in the graph's order, with the reference kernels. Each
// value has a dense buffer of its own on each simulated rank. Nothing is reused,
// nothing is a view, nothing is in place. So there is almost nothing that can go
// wrong, and whatever the real executor computes with views, shared memory and overlap
// is compared with this.
//
//   rank 0   x0 -> [op] -> y0 \                    / z0 -> [op] -> ...
//                              +-- all_reduce ----+      (comm_sim.h, one process)
//   rank 1   x1 -> [op] -> y1 /                    \ z1 -> [op] -> ...
//
// Before a kernel runs its outputs are NaN, and after every buffer come guard bytes,
// so a kernel that writes too little or too much is noticed.
//
// The folder interp: the meaning of a graph on any mesh, in one process. It sees the
// reference kernels and nothing of plans, executors or transports, so that anything
// above may be compared with it. What does not belong here: comparing (check, verify).

#ifndef TT_INTERP_INTERP_H
#define TT_INTERP_INTERP_H

#include "base/status.h"
#include "graph/graph.h"

typedef struct tt_interp tt_interp;

// One simulated rank per coordinate of the graph's mesh. The graph is borrowed: it
// must live as long as the interpreter.
tt_status tt_interp_create(const tt_graph *g, tt_interp **interp_out);
void tt_interp_destroy(tt_interp *it);

int tt_interp_ranks(const tt_interp *it);

// The local buffer of a value. Leaves are written here before a run.
void *tt_interp_data(tt_interp *it, int rank, tt_val v);
const tt_local *tt_interp_local(const tt_interp *it, int rank, tt_val v);

// Writes a whole value (global, dense, as doubles) to every rank, as its placement
// says. Of a Partial value, coordinate 0 gets everything and the others the neutral
// element: zero, or minus infinity for a maximum.
void tt_interp_write(tt_interp *it, tt_val v, const double *whole);

// Joins the parts of all ranks into the whole value. Partial values are reduced.
// Returns false when replicas that must be equal are not; the law decides what that
// means.
bool tt_interp_read(tt_interp *it, tt_val v, double *whole);

// Repeats the value's first elements in the guard bytes after it, where NaN was. A
// kernel that reads past the end would then find plausible numbers, and must still be
// right.
void tt_interp_echo(tt_interp *it, tt_val v);

tt_status tt_interp_run(tt_interp *it);

// A step of `n_micro` micro-batches as the executor runs it: forward and backward for
// each, with gradients adding up, then the update. New versions of states replace the
// old ones. `feed` writes the inputs of a micro-batch.
typedef tt_status tt_interp_feed_fn(void *user, tt_interp *it, int micro);
tt_status tt_interp_step(tt_interp *it, int n_micro, tt_interp_feed_fn *feed,
                         void *user);

#endif
