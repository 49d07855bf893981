// train_graph - a model made trainable: forward, loss, backward, update in one graph.
//
//   x, y -> model -> logits -> cross-entropy -> loss, count -> tally
//   1 -> backward -> offer(w) = gradient -> norm, clip -> optimiser -> agree(w)
//
// Scalars "lr", "step", "skip" and (with dropout) "seed" are inputs, with a guard
// "limit" too. Outputs: "loss" (a sum), "count", "correct", "norm", "skipped",
// "loss_scale" (of the next step); of stages that do not wait for each other only the
// first four, each with the number of its stage.
//
// Inference has the first line of this only: see tt_inference_graph.

#ifndef TT_JOB_TRAIN_GRAPH_H
#define TT_JOB_TRAIN_GRAPH_H

#include "model/model.h"
#include "ops/optim/optim.h"
#include "pass/layers.h"

typedef struct tt_train_recipe {
    const tt_model_def *model;
    const void *model_params;
    tt_optim_use optim; // count and loss are filled in
    tt_dtype dtype, master;
    double smoothing;
    bool no_masters;   // weights of two dims and more lie in `dtype` alone
    double loss_scale; // the first factor on the loss (f16); 0: none
    // An input "stop", a number per sample, and the output "stop", their sum: so
    // that with the losses all ranks learn that one of them wants to stop.
    bool asks_to_stop;
    int64_t bn_group;  // samples that batch norm takes together; 0: all
    tt_layers_cut cut; // into stages; all zero: one
    // Stages update their weights without waiting for each other. So that nothing but
    // activations and gradients goes from one to another, each sums the losses of the
    // micro-batches that come back to it: outputs "loss.STAGE" and so on.
    bool is_endless;
    // All stages lie on one rank, and updates of a step follow the gradients of all: then
    // "loss.0" and so on are enough.
    bool is_late;
    // Which weights get no gradient; NULL: all get one. Shares optim.user.
    bool (*is_frozen)(const char *name, void *user);
} tt_train_recipe;

// `io` holds the extents of a micro-batch; its values are set.
tt_status tt_train_graph(const tt_train_recipe *recipe, tt_model_io *io,
                         tt_graph **graph_out);

// The model as it is used: running statistics, no dropout, weights only in the
// precision that kernels read. Outputs "loss", "count", "correct", and "logits"
// if they are wanted.
tt_status tt_inference_graph(const tt_train_recipe *recipe, bool wants_logits,
                             tt_model_io *io, tt_graph **graph_out);

#endif
