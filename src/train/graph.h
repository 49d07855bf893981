// graph - a model made trainable: forward, loss, backward, update in one graph.
//
//   x, y -> model -> logits -> cross-entropy -> loss, count -> tally
//   1 -> backward -> offer(w) = gradient -> norm, clip -> optimiser -> agree(w)
//
// Scalars "lr", "step", "skip" and (with dropout) "seed" are inputs. Outputs:
// "loss" (a sum), "count", "correct", "norm".

#ifndef TT_TRAIN_GRAPH_H
#define TT_TRAIN_GRAPH_H

#include "model/model.h"
#include "ops/optim.h"

typedef struct tt_train_recipe {
    const tt_model_def *model;
    const void *model_params;
    tt_optim_use optim; // count is filled in
    tt_dtype dtype, master;
    double smoothing;
} tt_train_recipe;

// `io` holds the extents of a micro-batch; its values are set.
tt_status tt_train_graph(const tt_train_recipe *recipe, tt_model_io *io,
                         tt_graph **graph_out);

#endif
