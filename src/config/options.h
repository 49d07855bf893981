// options - the sections of a configuration that the training loop reads:
// train.* eval.* sample.* checkpoint.* log.* init.* bn.* exact.* loss_scale.* and
// run.

#ifndef TT_CONFIG_OPTIONS_H
#define TT_CONFIG_OPTIONS_H

#include "base/settings/opt.h"
#include "base/settings/settings.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tt_nan_policy {
    TT_NAN_STOP,
    TT_NAN_SKIP,
    TT_NAN_ROLLBACK,
} tt_nan_policy;

typedef enum tt_spike_policy {
    TT_SPIKE_NONE,
    TT_SPIKE_SKIP,
    TT_SPIKE_ROLLBACK,
} tt_spike_policy;

typedef struct tt_train_options {
    // train.*
    int64_t steps;      // 0: follows from epochs
    double epochs;      // 0: follows from steps
    int64_t stop;       // 0: not before the end
    double ema;         // decay; 0: none
    const char *freeze; // "": nothing
    int nan, spike;     // tt_nan_policy, tt_spike_policy
    double spike_sigma;
    int64_t back, patience;
    // eval.*
    int64_t eval_every, eval_batches;
    // sample.*
    int64_t sample_every, sample_tokens, top_k;
    const char *prompt;
    double temperature, top_p;
    // checkpoint.*
    int64_t save_every, keep, keep_every;
    double save_minutes; // 0: never because of time
    int64_t
        save_memory; // bytes; 0: as many as training takes, 256 MiB at least
    bool keep_best;
    // log.*
    int64_t log_every;
    bool tensorboard;
    const char *trace; // "": none
    // init.*
    const char *from, *skip;
    // bn.*
    int64_t bn_group; // samples; 0: the whole micro-batch
    // exact.*
    int64_t blocks;
    // loss_scale.*
    double loss_scale; // in the first step
    int64_t loss_scale_growth;
    // top
    const char *run;
} tt_train_options;

// One section: a prefix ("" for the top) and its table; offsets are into
// tt_train_options.
typedef struct tt_section {
    const char *prefix;
    const tt_opt *table;
} tt_section;

// All of them; ends with a NULL table.
extern const tt_section tt_train_sections[];

#endif
