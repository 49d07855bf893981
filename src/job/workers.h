// workers - jobs whose workers go at their own pace, as the training loop sees them.

#ifndef TT_JOB_WORKERS_H
#define TT_JOB_WORKERS_H

#include "exchange/diary.h"
#include "job/job.h"

// The workers of this rank, and the samples of one of their micro-batches.
void tt_job_workers(const tt_job *job, int32_t *first_out, int32_t *n_out);
int64_t tt_job_worker_samples(const tt_job *job);
// Into how many parts a micro-batch is divided: of a federation it is a client's.
int64_t tt_job_worker_parts(const tt_job *job);
// Before anything is written: whether exchange.schedule can be followed, if it is a file.
tt_status tt_job_check_schedule(const tt_job *job);
// All ranks together, also those without workers, unless it is done: before the first step.
tt_status tt_job_workers_open(tt_job *job);
// After that: gradients whose batches a worker has used, where it goes on.
int64_t tt_job_worker_number(const tt_job *job, int32_t worker);

// Federations: how the data are to be divided (all but `shuffle`); who has which, before
// the first step, which must outlive the job.
bool tt_job_is_federated(const tt_job *job);
void tt_job_describe_shares(const tt_job *job, tt_shares_options *out);
void tt_job_set_shares(tt_job *job, const tt_shares *shares);

// All ranks: the states of every rank's executor become those of the server. Before
// somebody reads them. Nothing without workers.
tt_status tt_job_settle(tt_job *job);

// All that a run needs to go on besides the states: what workers compute with, clocks,
// gradients that wait. All ranks take part; the bytes are rank 0's.
tt_status tt_job_workers_save(tt_job *job, tt_str *out);
// Before the next step; rank 0's bytes, `n` of them (0: workers begin anew).
tt_status tt_job_workers_load(tt_job *job, const char *bytes, int64_t n);

// By the wall clock: who delivered when, a line each, from the first step on: a file for
// exchange.schedule. NULL: it is not kept.
const tt_str *tt_job_record(const tt_job *job);

// Whether workers are taken as they come, so that each run has an order of its own.
bool tt_job_workers_are_live(const tt_job *job);
// What a run cannot promise, in a sentence; NULL: nothing.
const char *tt_job_workers_caveat(const tt_job *job);
// Whether a run may go on with another number of them, from the model.
bool tt_job_workers_may_change(const tt_job *job);

typedef struct tt_worker_row {
    int32_t rank; // that computes for it; below 0: now one, now another
    int64_t pushed, dropped, refused; // gradients
    double staleness;                 // mean of those in updates
    double time[TT_N_CAUSES];         // where its time went
    double pace;                      // time of computing a gradient, mean
    double slow;      // that, over the median of all workers; 0: not known
    int64_t up, down; // bytes of gradients and weights
} tt_worker_row;

// What happened in the rounds of a federation.
typedef struct tt_rounds {
    int64_t made, lost;           // lost: nobody answered in time
    int64_t asked, late, dropped; // clients
    // Privacy that was spent; epsilon below 0: there is no noise.
    double epsilon, delta;
} tt_rounds;

// What the server took and sent, from the first step on; of shards the sum. The weights that
// workers begin with do not count.
typedef struct tt_server_did {
    int64_t proxies; // 0: workers push to the server themselves
    int64_t chain;   // ranks that hold each shard
    int64_t pushes, answers;
    int64_t bytes_in, bytes_out;
    int64_t bytes_passed; // of both: updates on their way to copies
} tt_server_did;

// What workers did, from the first step on. By the wall clock rank 0 knows.
typedef struct tt_workers {
    int32_t n;
    const tt_worker_row *worker;
    int64_t updates, pushed, dropped, refused;
    int64_t messages;         // between workers with weights of their own
    double staleness;         // mean
    int32_t n_bins;           // of the histogram, without empty ones at its end
    const int64_t *histogram; // gradients by staleness; the last: or more
    int32_t bins_max;         // n_bins is at most that
    const char *unit; // of times: drawn ones in gradients; NULL: not known
    double now;       // by them
    const tt_rounds *rounds; // NULL: there are none
    tt_diary diary;          // bars
    // In this start: seconds in steps, and updates in them; those that a server was busy.
    double busy, seconds;
    int64_t n_made;
    bool has_server;
    tt_server_did server;
} tt_workers;

// The executor in which this rank's workers compute gradients; NULL: the job's, or none
// has yet.
const tt_exec *tt_job_worker_exec(const tt_job *job);

// The epsilon that a federation has spent so far; not a number without noise.
double tt_job_epsilon(const tt_job *job);

// In the arena; n = 0: no step was made.
tt_status tt_job_workers_did(const tt_job *job, tt_arena *arena,
                             tt_workers *out);

// Sums so far, for what is said while the run goes on; all 0 where there are no workers.
typedef struct tt_workers_sums {
    int64_t updates, pushed, dropped, refused;
    int64_t used;  // gradients that are in updates
    int64_t stale; // the sum of their staleness
    double time;   // drawn or in steps; NaN: not known
} tt_workers_sums;
tt_workers_sums tt_job_workers_sums(const tt_job *job);

#endif
