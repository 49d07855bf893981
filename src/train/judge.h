// judge - what to do about a step that went wrong: train.nan and train.spike.
//
// A loss is a spike when it lies more than spike_sigma standard deviations above
// the mean of the last 128 (once there are 20). The limit is known before the step,
// so that a bad step changes nothing (tt_job.guard, tt_job.limit); afterwards the
// judge says whether to stop, to go on after the batch, or to roll back.
//
// Replicas with weights of their own meet after many steps, and a guard looks at one step
// of one of them. So the window has losses of single steps: means over a meeting vary much
// less, and every other step would seem a spike beside them.
//
// All of it is a function of the losses so far, and its state goes into the
// checkpoint: a run that was killed decides as one that was not.

#ifndef TT_TRAIN_JUDGE_H
#define TT_TRAIN_JUDGE_H

#include "base/json.h"
#include "base/json_read.h"
#include "config/options.h"

enum {
    TT_JUDGE_WINDOW = 128,
    TT_JUDGE_LEAST = 20,    // losses before a spike can be seen
    TT_JUDGE_ROLLBACKS = 3, // in a row, before giving up
    TT_JUDGE_SKIPS = 50,    // in a row, before giving up
};

typedef struct tt_judge {
    int64_t n; // losses in the window, oldest first
    double window[TT_JUDGE_WINDOW];
    int64_t skips, rollbacks;               // so far
    int64_t skips_in_row, rollbacks_in_row; // since things last went well
    int64_t furthest; // step that was rolled back: passing it is going well
    int64_t anchor;   // where to: the next one goes no further back
} tt_judge;

typedef enum tt_verdict {
    TT_VERDICT_GOOD,
    TT_VERDICT_STOP,
    TT_VERDICT_SKIP,
    TT_VERDICT_ROLLBACK,
} tt_verdict;

// The largest loss that is no spike; infinity while that is not known.
double tt_judge_limit(const tt_judge *judge, const tt_train_options *options);

typedef struct tt_judge_step {
    int64_t step; // steps done, with this one
    double loss, norm;
    double limit;      // that was set for it
    double loss_scale; // of the next one; 0: the loss is not scaled
    // Of replicas with weights of their own, since they met: how many steps of single ones
    // these were (0: there are none), how many of them were not finite, how many spikes,
    // and the loss of one of them. Their guards have left out both kinds.
    double n_single, n_bad, n_spikes, single;
} tt_judge_step;

// Takes note of a step and says what to do. `why` (of at least 256 bytes) gets a
// sentence unless all is well; with TT_VERDICT_STOP it is what went wrong.
tt_verdict tt_judge_verdict(tt_judge *judge, const tt_train_options *options,
                            const tt_judge_step *step, char why[256]);

// Takes over the counters of `before` after the state was rolled back from
// `bad_step` to `step`.
void tt_judge_rolled_back(tt_judge *judge, const tt_judge *before,
                          int64_t bad_step, int64_t step);

void tt_judge_print(const tt_judge *judge, tt_json *json, const char *key);
void tt_judge_read(const tt_json_value *value, tt_judge *judge_out);

#endif
