// small - every model in a size that the reference kernels compute in a moment, with
// data.
//
// Laws about models (model, train, ranks, blocks, flight) need real models: tied
// weights, residuals, batch norm, experts. They do not need large ones.

#ifndef TT_CHECK_SMALL_H
#define TT_CHECK_SMALL_H

#include "check/law.h"
#include "interp/interp.h"
#include "job/train_graph.h"
#include "model/model.h"

typedef struct tt_small {
    const char *model, *options; // of the registry; text for its option table
    int64_t seq, image;          // 0: not for this model
    const char *tensor; // layout over an axis `tensor`; NULL: not split so
    bool needs_batch;   // batch norm: samples depend on each other
    int index;          // among all; laws with many settings take turns by it
} tt_small;

// The samples of all models, in the order of the registry. False: past the last.
bool tt_small_at(int index, tt_small *out);

enum { TT_SMALL_BATCH = 4 };

// The graph of forward, backward and an SGD update, in fp64.
tt_status tt_small_build(const tt_small *small, int64_t batch,
                         tt_graph **graph_out);

// The same with another recipe; its model and model options are filled in here.
tt_status tt_small_build_as(const tt_small *small,
                            const tt_train_recipe *recipe, int64_t batch,
                            tt_graph **graph_out);

// The data of a leaf, whole. It depends on the leaf's name and not on the graph, so
// graphs before and after a pass get the same numbers. Inputs hold samples first,
// first + 1, ...
void tt_small_fill(const tt_graph *g, tt_val v, int64_t first, double *out);

// A graph on simulated ranks with all leaves filled.
tt_status tt_small_open(const tt_graph *g, tt_interp **interp_out);

int64_t tt_small_elements(const tt_graph *g, tt_val v); // of the whole value

// Results of a run: a whole value, which the caller frees (NULL: no memory), and the
// loss.
double *tt_small_read(tt_interp *it, const tt_graph *g, tt_val v);
double tt_small_loss(tt_interp *it, const tt_graph *g);

// Some training steps, each of `n_micro` micro-batches of the graph's batch.
typedef struct tt_small_steps {
    int64_t batch;
    int n_micro, n_steps;
} tt_small_steps;
tt_status tt_small_train(const tt_graph *g, const tt_small_steps *s,
                         tt_interp **interp_out);

// Calls `check` for every sample of a model that the report wants. A model without
// samples is a failure.
typedef tt_status tt_small_check_fn(tt_law_report *r, const tt_small *small,
                                    const char *name);
void tt_small_each(tt_law_report *r, tt_small_check_fn *check);

#endif
