// job_options - the settings that say what is trained: model, batch, precision, device,
// optimiser. optim.* has three parts: what every optimiser has, its schedule, and what
// its operator has.

#ifndef TT_CONFIG_JOB_OPTIONS_H
#define TT_CONFIG_JOB_OPTIONS_H

#include "base/arena.h"
#include "base/settings/opt.h"
#include "config/schedule.h"
#include "ops/optim/optim.h"

typedef enum tt_precision {
    TT_PRECISION_FP32,
    TT_PRECISION_BF16,
    TT_PRECISION_FP16,
    TT_PRECISION_FP64,
    TT_PRECISION_FP8, // products of linear layers; bf16 elsewhere
    TT_N_PRECISIONS,
} tt_precision;
extern const char *const tt_precision_name[TT_N_PRECISIONS];

// The keys of a configuration that stand at the top.
typedef struct tt_job_options {
    const char *model, *optim, *device;
    int64_t batch, micro, accumulate, seq, image; // batch = micro * accumulate
    int precision;                                // tt_precision
    int64_t threads, seed;
    double smoothing;
    bool exact, graphs;
    int recompute; // mode of the pass of that name
} tt_job_options;
extern const tt_opt tt_job_option_table[];

// optim.*: what every optimiser has; `params` are its operator's own.
typedef struct tt_job_optim {
    tt_optim_params params;
    double lr, clip;
    int decay;       // tt_job_decay
    int lr_scale;    // tt_job_lr_scale
    double lr_batch; // that lr was made for
    const char *no_decay, *lr_groups;
    bool master; // weights are kept in fp32 too
    tt_schedule schedule;
} tt_job_optim;

// Which weights weight_decay applies to.
typedef enum tt_job_decay { TT_DECAY_MATRICES, TT_DECAY_ALL } tt_job_decay;

// How the rate grows with the batch.
typedef enum tt_job_lr_scale {
    TT_LR_SCALE_NONE,
    TT_LR_SCALE_LINEAR,
    TT_LR_SCALE_SQRT,
} tt_job_lr_scale;

// An optimiser by name; an unknown one is an error that suggests the nearest.
tt_status tt_job_find_optim(const char *name, const tt_optim_def **def_out);

// The option table of an optimiser's settings, in the arena.
tt_status tt_job_optim_table(const tt_optim_def *optim, tt_arena *arena,
                             const tt_opt **table_out);

#endif
