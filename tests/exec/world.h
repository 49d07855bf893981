// world - a graph, its plan and an executor, for tests.

#ifndef TT_TESTS_EXEC_WORLD_H
#define TT_TESTS_EXEC_WORLD_H

#include "exec/exec.h"
#include "graph/grad.h"

typedef struct world {
    tt_builder b;
    tt_graph *graph;
    tt_backend *backend;
    tt_plan *plan;
    tt_exec *exec;
} world;

// Starts building in f64.
void world_init(world *w);

// Ends building, lowers for `def` (NULL: ref), creates an executor that poisons
// its memory, initialises states with seed 1.
void world_open(world *w, const tt_backend_def *def,
                const tt_lower_options *options);
void world_fini(world *w);

tt_val world_find(const world *w, const char *name); // value or output
int world_count(const world *w, const char *op);     // steps of this operator
double world_scalar(world *w, const char *name);
void world_read(world *w, const char *name, double *data_out); // f64 values

// w - 0.1 * gradient for every param, in the update phase.
void world_add_sgd(tt_builder *b);

// An MLP with a reshaped and a shared weight: "batch:N in:3" -> loss, gradients,
// updates. `split_batch` micro-batches see consecutive rows.
void world_build_mlp(tt_builder *b, int64_t batch);

// Writes rows of a fixed data set into "x": micro-batch m sees rows m*n...
tt_status world_feed_rows(void *user, tt_exec *exec, int32_t micro);

#endif
