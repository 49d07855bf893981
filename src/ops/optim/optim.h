// optim - optimisers as functions of the graph.
//
// An optimiser operator takes (w, g, lr, scale, step, skip, state0, state1) and
// gives (w, state0, state1, low): the new weight and states, and, when `low` names
// a dtype, the weight in the precision that kernels read. g is a sum over samples;
// the gradient is g * scale. `step` is the number of this update, from 1. When
// skip is not 0 the outputs equal the inputs. Formulas are PyTorch's.

#ifndef TT_OPS_OPTIM_OPTIM_H
#define TT_OPS_OPTIM_OPTIM_H

#include "graph/build.h"
#include "ops/scaling.h"

typedef enum tt_low { TT_LOW_NONE, TT_LOW_BF16, TT_LOW_F16 } tt_low;

// Inputs of an optimiser operator.
enum {
    TT_OPTIM_W,
    TT_OPTIM_G,
    TT_OPTIM_LR,
    TT_OPTIM_SCALE,
    TT_OPTIM_STEP,
    TT_OPTIM_SKIP,
    TT_OPTIM_STATE,
    TT_OPTIM_MAX_STATE = 2,
};

// The params of every optimiser operator; each has options for what it reads.
typedef struct tt_optim_params {
    double weight_decay;
    double momentum, dampening;
    double alpha, beta1, beta2, eps;
    double lr_decay, initial; // of adagrad
    double trust;             // of lars
    bool nesterov;
    bool adapt; // lars, lamb: scale by the norms of weight and update
    int low;    // tt_low
    // Stochastic rounding, for a weight in bf16: up or down at random, so that it is
    // right on average. The random numbers are a function of seed, the node's origin,
    // step and the element's index.
    bool is_random;
    int64_t seed;
} tt_optim_params;

typedef struct tt_ema_params {
    double decay;
} tt_ema_params;

typedef struct tt_optim_def tt_optim_def;

// One parameter's update: what goes in, and what came out (TT_NONE: not there).
typedef struct tt_optim_node {
    const tt_optim_def *def;
    tt_optim_params params;
    bool is_exact; // see tt_optim_use.exact
    tt_val in[TT_OPTIM_STATE + TT_OPTIM_MAX_STATE];
    tt_val w, state[TT_OPTIM_MAX_STATE], low;
} tt_optim_node;

struct tt_optim_def {
    const char *name, *doc;
    const tt_op_def *op; // its options are the optimiser's
    int n_state;
    const char *state[TT_OPTIM_MAX_STATE]; // suffixes of the states' names
    // Emits the update: fills w, state, low.
    void (*emit)(tt_builder *b, tt_optim_node *node);
};

const tt_optim_def *tt_optim_all(int *n);
const tt_optim_def *tt_optim_find(const char *name); // NULL: unknown

// How many states an operator updates beside the weight.
int tt_optim_n_state(const tt_op_def *op);

typedef struct tt_optim_use {
    const tt_optim_def *def;
    tt_optim_params params; // weight_decay: of the weights that are decayed
    double clip;            // the largest norm of the gradient; 0: no limit
    bool wants_norm;        // output "norm" even when it is not limited
    tt_val count;           // what the loss counts: divides the gradient
    // Whether a weight is decayed, and adapted by lars and lamb; NULL: those
    // with two dims or more.
    bool (*is_decayed)(const char *name, const tt_shape *shape, void *user);
    // The factor on a weight's learning rate; NULL: 1.
    double (*rate)(const char *name, void *user);
    void *user;
    bool exact; // norms are the same in every bit however weights are cut
    double ema; // decay of a moving average of every weight; 0: none
    // Skips the update when the loss (a sum, as count is) or the gradient is not
    // finite, or when the mean loss is above the scalar "limit". The output "skipped"
    // tells.
    bool guard;
    tt_val loss;
    // Stages that update their weights without waiting for each other: each has a count of
    // its own (and no guard), and its norm is that of its own gradients: "norm.STAGE". 0:
    // all weights are updated together.
    int32_t n_stages;
    const tt_val *stage_count;
    const double *stage_momentum; // instead of that of params; NULL: that
    // The factor on the loss that was differentiated, a state: gradients are divided
    // by it. With `guard`, what it is in the next step follows from this one.
    bool has_loss_scale;
    tt_val loss_scale, good_steps;
    tt_loss_scale_params scaling;
} tt_optim_use;

// After tt_grad: appends the update of every param that has a gradient, with its
// states, of the work copies, and of the averages "NAME.ema".
tt_status tt_optim_apply(tt_builder *b, const tt_optim_use *use);

// The sum of squares of one tensor, for the norms that some optimisers need.
tt_val tt_optim_squares(tt_builder *b, const tt_optim_node *node, tt_val x);

#endif
