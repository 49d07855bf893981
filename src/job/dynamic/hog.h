// hog - workers that change one copy of the weights in memory that all ranks see, without
// locks. Files of job/dynamic/ only.
//
// A worker goes round: a gradient at the weights that it has read; a step of its own
// optimiser beside them; what the step has moved is added to the shared words
// (exchange/shared.h). Nobody is asked and nobody waits.
//
//   rank 0's memory, seen by all:
//     taken            deliveries so far: the next one's number
//     version          of each copy: changes that were added
//     rows             who delivered what, by number; a ring of steps
//     copies           words of weights and statistics
//
// A delivery takes a number; as many as there are workers are a step, whoever made them. When
// the rows of a step are full, every rank reads them: so all count the same gradients, losses
// and ages, and decide alike. A rank goes on to the next step at once, also if it had no
// delivery in this one. It waits for others in three places:
//
//   - a row of the step has its number and is being filled: some memory accesses
//   - somebody is so many steps behind that his rows would be overwritten
//   - after a step after which all meet (logs, evaluations, checkpoints)
//
// A gradient that is ready when its step is full is added in the next one. So after a meeting
// the words are what exactly so many deliveries have made of them, and a checkpoint has
// those, the weights that each worker computes with, and the states of its optimiser.
//
//   hog_open   memory       hog_step   a step       hog_state   model, checkpoints

#ifndef TT_JOB_DYNAMIC_HOG_H
#define TT_JOB_DYNAMIC_HOG_H

#include "exchange/shared.h"
#include "job/dynamic/crowd.h"

#include <stdatomic.h>

enum { TT_HOG_STEPS = 256 }; // that ranks may be apart

typedef struct tt__hog_count { // on a cache line of its own
    _Alignas(64) atomic_llong v;
} tt__hog_count;

typedef struct tt__hog_row { // a delivery
    int64_t worker;
    int64_t old; // changes of others between reading and writing; -1: refused
    double head[TT_HEAD_N];
    double now, waited, computed; // when, and what it took, in seconds of steps
    bool wants_stop, wants_save;
} tt__hog_row;

typedef struct tt__hog {
    char *block; // all of it; rank 0's
    tt__hog_count *taken;
    tt__hog_count *version;  // per copy
    tt__hog_count *seen;     // per worker: its copy's version when it read it
    tt__hog_count *steps;    // per rank: whose rows it has read
    tt__hog_count *is_there; // per rank: it is about to fill a row
    tt__hog_count *filled;   // per step of the ring: rows, of all times round
    tt__hog_row *row;
    int32_t n_copies;
    tt_shared *copy;
    // This rank's.
    int64_t base;     // the job's steps before the first one here; -1: none yet
    int32_t next;     // of its workers
    bool *is_stepped; // per worker: what it will add is ready
    double *got;      // per worker: when it read its weights,
    double *waited;   // and what it took since
    double *computed;
    double began, elapsed; // of steps
} tt__hog;

static inline const tt_shared *tt__hog_copy(const tt_dynamic *d, int32_t worker)
{
    return &d->hog->copy[(int64_t)worker * d->hog->n_copies / d->workers];
}

static inline tt__hog_count *tt__hog_version(const tt_dynamic *d,
                                             int32_t worker)
{
    return &d->hog->version[(int64_t)worker * d->hog->n_copies / d->workers];
}

bool tt__hog_is(const tt_job *job);
tt_status tt__hog_check(const tt_job *job);
tt_status tt__hog_open(tt_dynamic *d); // after the crowd
void tt__hog_close(tt_dynamic *d);     // without: nothing

tt_status tt__hog_step(tt_dynamic *d, tt_step_result *result_out);

// The mean of the copies becomes the model's vector, at rank 0.
void tt__hog_model(const tt_dynamic *d, void *model);
// The end of what a checkpoint has of workers.
int64_t tt__hog_bytes(const tt_dynamic *d);
void tt__hog_save(const tt_dynamic *d, tt_str *out);
tt_status tt__hog_load(tt_dynamic *d, const char *bytes);
// Before that: what goes with the rules.
void tt__hog_note_ages(const tt_dynamic *d);

#endif
