// job - from settings to something that trains: model, graph, plan, executor.
//
//   settings -> tt_job_configure -> tt_job_plan -> tt_job_start -> tt_job_step
//
// One thread at a time. A job that fails to start leaves nothing behind.

#ifndef TT_TRAIN_JOB_H
#define TT_TRAIN_JOB_H

#include "backend/backend.h"
#include "base/settings.h"
#include "exec/exec.h"
#include "model/model.h"
#include "ops/optim.h"
#include "plan/plan.h"

typedef enum tt_precision {
    TT_PRECISION_FP32,
    TT_PRECISION_BF16,
    TT_PRECISION_FP16,
    TT_PRECISION_FP64,
} tt_precision;

// The keys of a configuration that stand at the top.
typedef struct tt_job_options {
    const char *model, *optim, *device;
    int64_t batch, accumulate, seq, image;
    int precision; // tt_precision
    int64_t threads, seed;
    double smoothing;
    bool exact;
    int recompute; // mode of the pass of that name
} tt_job_options;
extern const tt_opt tt_job_option_table[];

// optim.*: what every optimiser has, behind what its operator has.
typedef struct tt_job_optim {
    tt_optim_params params;
    double lr, clip;
    int decay; // tt_job_decay
} tt_job_optim;

// Which weights weight_decay applies to.
typedef enum tt_job_decay { TT_DECAY_MATRICES, TT_DECAY_ALL } tt_job_decay;

typedef struct tt_job {
    tt_arena *arena;
    tt_job_options options;
    const tt_model_def *model;
    void *model_params;
    const tt_optim_def *optim;
    tt_job_optim optim_params;
    const char *note; // something the user should know; NULL: nothing
    tt_model_io io;   // extents of one micro-batch
    tt_graph *graph;
    tt_backend *backend;
    tt_plan *plan;
    tt_exec *exec;
    void *x, *y;  // one micro-batch on the host
    int64_t step; // updates done
} tt_job;

// Reads and checks all settings: each must be known. `extra` (may be NULL) are
// options that the caller has read from the same settings already.
tt_status tt_job_configure(tt_settings *settings, const tt_opt *extra,
                           tt_job **job_out);
void tt_job_close(tt_job *job); // NULL is fine

// The option table of an optimiser's settings, in the arena.
tt_status tt_job_optim_table(const tt_optim_def *optim, tt_arena *arena,
                             const tt_opt **table_out);

// Builds the training graph and lowers it.
tt_status tt_job_plan(tt_job *job);

// Fails when the plan is larger than the machine's memory, with the table and the
// cheapest changes that would make it fit.
tt_status tt_job_check_fit(tt_job *job);

// Allocates memory and initialises state from the seed.
tt_status tt_job_start(tt_job *job, const tt_exec_options *options);

// Fills the inputs of one micro-batch: x and y dense, in the graph's types.
typedef tt_status tt_job_feed_fn(void *user, const tt_job *job, int64_t micro,
                                 void *x, void *y);

// Random tokens or pixels with random labels, keyed by seed, step and index.
tt_status tt_job_feed_random(void *user, const tt_job *job, int64_t micro,
                             void *x, void *y);

typedef struct tt_step_result {
    double loss;    // mean over the step's targets
    double count;   // targets
    double correct; // targets whose best guess was right
    double norm;    // of the mean gradient, before clipping; 0: not limited
} tt_step_result;

// One optimiser step over all micro-batches.
tt_status tt_job_step(tt_job *job, tt_job_feed_fn *feed, void *user,
                      tt_step_result *result_out);

int64_t tt_job_parameters(const tt_job *job); // trained numbers

// FLOPs of one step by the usual formulas: tokens * (6N + 6LCT), attention
// counted in full (12LCT) when it is not causal; images: 3 x 2 x multiply-adds.
double tt_job_flops(const tt_job *job);

#endif
