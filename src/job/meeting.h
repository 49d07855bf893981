// meeting - what a step tells, and what ranks tell each other of replicas with weights of
// their own (job/replicas/replicas.c).

#ifndef TT_JOB_MEETING_H
#define TT_JOB_MEETING_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct tt_job;

// Of replicas with weights of their own: over all steps since the last meeting, if there
// was one.
typedef struct tt_step_result {
    double loss;     // mean over the step's targets
    double count;    // targets
    double correct;  // targets whose best guess was right
    double norm;     // of the mean gradient, before clipping; 0: not measured
    bool skipped;    // the guard left the update out: no state has changed
    bool stop, save; // a rank wants to stop; none, but rank 0 to save
    // Of precision=fp16: the next step's factor on the loss; 0: there is none.
    double loss_scale;
    bool is_local; // there was none: only `loss`, of this rank's replicas
    int64_t steps; // since the last meeting, this one too
    // Of replicas: steps that single ones have made since then, how many their guards left
    // out, how many of these were not finite, and the loss of one such step.
    double n_single, n_skipped, n_bad, single;
    double distance; // of a replica from the model, mean square; 0: not known
    double length;   // of the model
} tt_step_result;

// What a replica has done since the last meeting: sums over steps, and the loss of the
// last one. Squares of its distance from the model, and of the model's length, as of the last time that it was made.
typedef struct tt_replica_tally {
    double loss, count, correct, norm, skipped, bad, last;
    double distance, length;
} tt_replica_tally;

// Replicas with weights of their own (job/replicas/replicas.c).
typedef struct tt_job_replicas {
    int64_t n;               // on this rank; 0: weights are equal everywhere
    tt_replica_tally *tally; // of each
    int64_t steps;           // since the last meeting
    int64_t model_step;      // of which the model is
    int64_t agreed;          // agreements after the last step
    int64_t *sent; // per segment: after which step what it waits for was sent
    void *read;    // room for a number of each
    double *value; // the same, for every output
} tt_job_replicas;

// Makes the model of replicas that have weights of their own: before it is evaluated,
// sampled or saved. Nothing to do where weights are equal, or where it was made after this
// step. All ranks call it.
tt_status tt_job_model(struct tt_job *job);
// Waits for agreements whose messages travel while steps run, and uses them: before anybody
// reads or writes states. The model and meetings do it by themselves. All ranks call it.
tt_status tt_job_land(struct tt_job *job);
// The reverse: after the model was read from elsewhere.
tt_status tt_job_spread(struct tt_job *job);
// Whether a rank is the first of those that work for the same replicas.
bool tt_job_is_first_of(const struct tt_job *job, int32_t rank);

#endif
