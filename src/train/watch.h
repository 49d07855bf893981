// watch - what a run tells whoever shows it. Called from the thread that trains,
// between steps; must not block.

#ifndef TT_TRAIN_WATCH_H
#define TT_TRAIN_WATCH_H

#include "store/report/report.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_run_facts {
    const char *model; // "gpt: 4 layers, width 128, ..."
    const char *data;  // "text input.txt, chars: 1,003,854 tokens, ..."
    const char *precision, *device, *optim, *folder;
    const char *unit;           // "tokens" or "images": what the rate counts
    int64_t parameters, frozen; // trained numbers, and those that are not
    int64_t threads;            // of each rank
    int64_t peak_bytes;         // of the rank that needs the most
    int32_t peak_rank;          // which one that is; -1: all need the same
    int32_t n_ranks;
    int64_t blocks; // of a micro-batch in exact mode; 0: not exact
    int64_t batch, micro, accumulate, seq, image;
    int64_t steps, first_step; // first_step > 0: resumed there
    double flops_per_step;
    double units;              // of `unit`, in a step
    const char *mesh, *layout; // "data:2 tensor:2"; "": one rank
    const char *cut; // where its layers are cut, and how evenly; NULL: nowhere
    int64_t seed, zero;
    const char *command; // as it was typed; NULL: not known
    const char *parent;  // folder of the run it was forked from; NULL: none
    const char *started; // "2026-01-31T12:00:00Z", of its first start
    const tt_report_row *changed; // settings that are not the defaults; NULL
    const char *ranks; // "4 ranks on 1 host (...), ..."; NULL: one process
    const char *pace; // the speeds of trial.pace and what they mean; NULL: none
    const char *note; // something to know; NULL: nothing
} tt_run_facts;

typedef struct tt_run_point { // after a step that is logged
    int64_t step, steps;      // updates done, wanted
    double epoch;
    double loss, lr, norm, accuracy, perplexity; // NaN: has none
    double loss_scale;                           // likewise
    double
        consensus; // of replicas with weights of their own, likewise: how far they
                   // are from the model, over its length
    double epsilon;      // of a federation with noise, likewise: spent so far
    double step_seconds; // mean since the last point
    double rate;         // units per second
    bool is_paced;       // times are those of trial.pace
    double flops_per_second;
    double mfu;           // of the devices' peak; NaN: not known
    double elapsed, eta;  // seconds
    int64_t memory_bytes; // resident, of this process
    const char *trouble;  // what is not saved, a constant; NULL: all is well
} tt_run_point;

typedef struct tt_run_eval {
    int64_t step;
    double loss, accuracy, perplexity; // NaN: has none
    bool is_best;
    double seconds;
} tt_run_eval;

typedef enum tt_run_reason {
    TT_RUN_DONE,   // all steps
    TT_RUN_EARLY,  // early stop
    TT_RUN_SIGNAL, // SIGTERM, SIGHUP, SIGUSR1, the first Ctrl-C: saved
    TT_RUN_FAILED,
} tt_run_reason;

typedef struct tt_run_end {
    tt_run_reason reason;
    int64_t step;
    double seconds;                             // of this start
    double loss, val_loss, best_loss, accuracy; // NaN: not known
    bool is_paced;                              // times are those of trial.pace
    tt_report_time time; // where it went; of several ranks: the mean
    const char *error;   // why it failed; NULL: it did not
    const char *folder;
    const struct tt_ranks *ranks;     // what they did; NULL: there was one
    const struct tt_workers *workers; // at their own pace; NULL: there are none
} tt_run_end;

typedef enum tt_run_text {
    TT_TEXT_NOTE,    // resumed, rolled back, skipped: worth a line
    TT_TEXT_WARNING, // disk full, a corrupt checkpoint
    TT_TEXT_SAMPLE,  // text that the model wrote
} tt_run_text;

typedef struct tt_watch { // any may be NULL
    void *user;
    void (*start)(void *user, const tt_run_facts *facts);
    // The loss of the first batch, before anything was updated. Once in a run.
    void (*first)(void *user, double loss);
    // After every step, logged or not: cheap.
    void (*step)(void *user, int64_t step, double loss);
    void (*point)(void *user, const tt_run_point *point);
    void (*eval)(void *user, const tt_run_eval *eval);
    void (*text)(void *user, tt_run_text kind, int64_t step, const char *text);
    void (*end)(void *user, const tt_run_end *end);
} tt_watch;

#endif
