// trainer - what the parts of the training loop share. Internal.

#ifndef TT_TRAIN_TRAINER_H
#define TT_TRAIN_TRAINER_H

#include "job/workers.h"
#include "state/slices.h"
#include "state/spread.h"
#include "store/checkpoint.h"
#include "store/run.h"
#include "text/generate.h"
#include "train/evaluate.h"
#include "train/loop.h"
#include "train/ranks_report.h"
#include "train/run_state.h"

// A full disk is said again and again, but not at every try.
typedef struct tt_failures {
    int64_t n;
    double said; // clock
} tt_failures;

// Every rank goes the same way through all of this. Rank 0 alone has files and
// output; what it reads from files it tells the others.
typedef struct tt_trainer {
    tt_arena *arena;
    tt_session *session;
    tt_job *job; // the session's
    const tt_train_request *request;
    tt_train_state state;
    bool is_stopped; // a signal reached some rank: all know
    char why[256];   // the run ends when the pipe is empty; "": it does not
    tt_run *run;     // rank 0's, like all files
    tt_checkpoints *store; // the same
    tt_loader *loader;
    tt_loader **lane; // of a job with workers: of each of this rank's
    int32_t n_lanes, first_lane;
    int64_t n_refused; // gradients, as last seen
    tt_failures refusals;
    tt_workers_sums sums;  // of workers, at the last point
    const tt_workers *did; // at the end; NULL: there are none
    tt_str workers; // what workers need to go on, for the next checkpoint
    tt_evaluator *evaluator; // NULL: no validation data
    tt_generator *generator; // NULL: no sample yet
    tt_ranks_report *report; // NULL: not yet
    tt_ranks_point point;    // with has_point: for the next logged step
    bool has_point;
    const tt_ranks *ranks; // at the end; NULL: one rank, or not rank 0
    bool has_own_ranks;    // ranks.json is this start's, or was removed
    tt_snapshot snapshot;  // of states that rank 0 holds whole
    tt_spread *spread; // of states in parts; NULL: none, or no memory for it
    bool is_torn;      // a save failed half-way: ranks are no longer in step
    tt_slices_result read; // of the last checkpoint that was restored
    // What every checkpoint holds beside its tensors.
    tt_str config, tokenizer, origin;
    tt_run_facts facts;
    int64_t peak_bytes;       // planned, of the rank that needs the most
    int32_t peak_rank;        // the first that does; -1: all need the same
    const char *cut;          // where the layers are cut; NULL: nowhere
    int64_t first_step;       // of this start
    int64_t n_steps;          // that it has made
    int64_t saved_step;       // of the newest checkpoint; -1: none
    bool is_saved_in_passing; // that one
    double saved_clock;       // when it was
    bool is_broken_off; // what follows this step: a later start makes up for it
    tt_run_files files; // that the checkpoint being written wants on the disk
    tt_failures save_failures, log_failures; // in a row
    tt_failures slow_batches;
    int64_t failed_step;    // of the last checkpoint that was not even begun
    bool sample_has_failed; // and it was said
    int64_t n_lines_lost;   // of metrics and log, as last seen
    bool is_losing_lines;   // at the last point

    double started, seconds_before; // clock; of earlier starts
    double save_stall;              // seconds that steps waited
    double last_save;               // seconds of the last one
    double point_clock;             // of the last point
    double point_aside;             // seconds since then that were no steps
    int64_t point_step;
    int64_t memory_bytes; // resident, as last read
    double memory_clock;
    // Where the time goes: seconds in steps, and of these for the network; in
    // evaluations and samples.
    double step_seconds, network_seconds, aside_seconds;
    tt_report_time time_before;          // of earlier starts
    double report_clock, report_seconds; // when the page was written; how long
    const char *error;                   // why it fails; NULL: it does not
} tt_trainer;

static inline bool tt__trainer_is_first(const tt_trainer *t)
{
    return tt_peers_is_first(&t->job->peers);
}

// ---- trainer_start.c -----------------------------------------------------

// From the newest checkpoint, the fork's, init.from or the seed.
tt_status tt__trainer_start(tt_trainer *t, tt_str *notes);

// ---- trainer_check.c -----------------------------------------------------

// Whether the folder is for a run, and has not lost its checkpoints.
tt_status tt__trainer_check_folder(const tt_trainer *t, const tt_str *notes);
// Whether the run may go on from its checkpoint with today's settings and data.
tt_status tt__trainer_check_resume(tt_trainer *t, const tt_checkpoint *from,
                                   tt_str *notes);
// Whether the folder is one in which nothing was saved yet, so that beginning at step 0
// loses nothing but what was computed.
tt_status tt__trainer_check_anew(const tt_trainer *t, const tt_str *notes);

// ---- trainer_save.c ------------------------------------------------------

// Memory for checkpoints, before the first is due.
tt_status tt__trainer_prepare_save(tt_trainer *t);
// Saves in the background. Failing is a warning, now and then, unless ranks lost
// step over it. "In passing": because of a signal or of the clock, so that an
// undisturbed run would not have this checkpoint.
tt_status tt__trainer_save(tt_trainer *t, bool is_passing);
// After every step, on all ranks: parts of the last snapshot go on to rank 0.
tt_status tt__trainer_carry(tt_trainer *t);
// Asks how the last save went, if it is over. So a failure is reported soon, not
// when the next save is due.
void tt__trainer_hear_save(tt_trainer *t);
// Whether it is time for one (checkpoint.minutes), by rank 0's clock; others: false.
bool tt__trainer_is_time(const tt_trainer *t);
// Opens a loader for each of this rank's workers, where it goes on.
tt_status tt__trainer_open_lanes(tt_trainer *t);
// The last one: waits, and failing is an error.
tt_status tt__trainer_save_last(tt_trainer *t, bool is_passing);
// Restores tensors and state of a checkpoint, which only rank 0 has. Damaged data
// are no failure: `read` and `notes` say so, and the states are unusable until
// another checkpoint is restored. With `is_fork` not all states must be there.
tt_status tt__trainer_restore(tt_trainer *t, const tt_checkpoint *from,
                              bool is_fork, tt_str *notes);
// Goes back to the newest regular checkpoint that is at least train.back steps old,
// and continues with the data after the bad batch.
tt_status tt__trainer_roll_back(tt_trainer *t, const char *why);

// ---- trainer_log.c -------------------------------------------------------

// Counts a failure and tells whether to report it: the first, second, fourth, ...
// in a row, and when nothing was reported for ten minutes.
bool tt__trainer_is_worth_saying(tt_failures *failures);

double tt__trainer_seconds(const tt_trainer *t); // of training, all starts
void tt__trainer_say(tt_trainer *t, tt_run_text kind, const char *text);
// To whoever looks alone.
void tt__trainer_tell(const tt_trainer *t, tt_run_text kind, const char *text);
void tt__trainer_say_lines(tt_trainer *t, tt_run_text kind, const tt_str *text);
void tt__trainer_log(tt_trainer *t, const tt_step_result *step);
// The loss of the first step is that of the weights a run begins with: step 0's.
void tt__trainer_log_first(tt_trainer *t, const tt_step_result *step);
void tt__trainer_log_score(tt_trainer *t, const tt_score *score);
// ---- trainer_report.c ----------------------------------------------------

// Where this rank's time went until now.
tt_report_time tt__trainer_time(const tt_trainer *t);
// Writes the page of a run that goes on, unless it was written a moment ago.
void tt__trainer_report(tt_trainer *t);
void tt__trainer_check_log(tt_trainer *t, tt_status status); // trainer_log.c
void tt__trainer_tell_start(tt_trainer *t);
void tt__trainer_tell_end(tt_trainer *t, tt_run_reason reason,
                          tt_run_end *end_out);

// ---- trainer_ranks.c -----------------------------------------------------

bool tt__trainer_traces(const tt_trainer *t); // log.trace
tt_status tt__trainer_ranks_open(tt_trainer *t);
// Removes ranks.json of an earlier start, once this one has made a step.
void tt__trainer_ranks_forget(tt_trainer *t);
tt_status tt__trainer_ranks_point(tt_trainer *t); // before a step is logged
tt_status tt__trainer_ranks_end(tt_trainer *t);   // when all is well

// ---- trainer_workers.c ---------------------------------------------------

void tt__trainer_workers_open(tt_trainer *t);      // before the first step
tt_status tt__trainer_workers_hear(tt_trainer *t); // after a step
// The mean staleness since the last call, NaN: there was none; and sums of the whole run.
double tt__trainer_workers_point(tt_trainer *t, tt_workers_sums *sums_out);
// RUN/workers.json as of now.
tt_status tt__trainer_workers_write(tt_trainer *t, tt_arena *arena,
                                    const tt_workers **workers_out);
tt_status tt__trainer_workers_end(tt_trainer *t);

// ---- trainer_eval.c ------------------------------------------------------

bool tt__trainer_has_patience(const tt_trainer *t);
// On data.val; a new best is marked and saved. Stopped half-way (is_broken_off) it
// leaves no trace.
tt_status tt__trainer_evaluate(tt_trainer *t);

// ---- trainer_sample.c ----------------------------------------------------

// Failing is a warning, and the last try; unless ranks lost step over it. Stopped
// half-way (is_broken_off) it leaves no trace.
tt_status tt__trainer_sample(tt_trainer *t);

#endif
