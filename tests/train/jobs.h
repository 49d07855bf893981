// jobs - a started job of a family in one call, and its states as bytes.

#ifndef TT_TESTS_JOBS_H
#define TT_TESTS_JOBS_H

#include "job/job.h"
#include "train/families.h"

typedef struct made {
    tt_arena *arena;
    tt_settings settings;
    tt_job *job;
} made;

const family *family_named(const char *name);

// Configured, not planned.
made make_job(const family *f, const char *const *more);
// Feeds the same batch in every step, so that the loss falls; to a job of one rank.
tt_status feed_one_batch(void *user, const tt_job *job, int64_t micro, void *x,
                         void *y);

// And started.
made start_job(const family *f, const char *const *more, bool guard);
void close_job(made *m);

// The message with which settings are refused, at configuring or planning.
void check_refused(const char *const *settings, const char *message);

tt_step_result step_job(made *m); // on random data

// All states, work copies too; the same states if the memory is the same.
typedef struct states {
    int64_t bytes;
    unsigned char *data;
} states;
states read_states(const made *m);
bool same_states(states a, states b); // frees both

#endif
