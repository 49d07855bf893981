// run_state - what a run must know besides its tensors to go on as if it had never
// stopped, as the JSON that a checkpoint keeps; and whether it may go on under the
// settings of today.

#ifndef TT_TRAIN_RUN_STATE_H
#define TT_TRAIN_RUN_STATE_H

#include "session/session.h"
#include "store/run.h"
#include "train/judge.h"

typedef struct tt_train_state {
    int64_t began;    // step that this run began with: 0, or its fork's
    int64_t step;     // steps done
    int64_t position; // samples consumed: all there is to know about the data
    double seconds;   // of training, all starts together

    // Evaluations. `since_best` counts those without a new best.
    double best_loss, val_loss, val_accuracy; // NaN: none yet
    int64_t best_step, since_best, evaluated; // step of the last one; -1: none
    int64_t sampled;                          // the same of samples

    // Sums over the steps that are not logged yet; the mean that was.
    double loss, count, correct, train_loss;

    tt_judge judge;
    tt_run_marks marks; // of the run's files
    // Saved because of a signal or of time, and what follows the step may not all have
    // been done: a run that was left alone has no such checkpoint.
    bool is_passing;
    int64_t threads; // that it was computed with, on each rank
    int64_t ranks;
    char isa[16]; // instructions of rank 0, see tt_isa_word; "": not known
} tt_train_state;

void tt_train_state_init(tt_train_state *state);

// With the session's resolved settings and what its data are.
void tt_train_state_print(const tt_train_state *state,
                          const tt_session *session, tt_str *out);

// And back; `settings_out` gets the settings and "(data)" of then. `name` is what
// errors call the text.
tt_status tt_train_state_read(const char *json, const char *name,
                              tt_arena *arena, tt_train_state *state_out,
                              tt_settings *settings_out);

// Fails with a table when a setting differs that decides what is computed. `folder`
// is the run's. log.*, checkpoint.*, sample.*, run, train.stop, data.workers,
// data.ahead, threads and what is in config/distribution.h never matter; train.steps and train.epochs only to a schedule that
// looks at the end. `data` says what changed in the files of the data, NULL or "":
// nothing; where something did, what only follows from it is no difference of settings.
tt_status tt_train_state_compare(const tt_session *session,
                                 const tt_settings *then, const char *data,
                                 const char *folder);

#endif
