// crew - the same job trained by ranks of their own processes; its states before and
// after, as numbers.
//
// Nothing of it may run in a test that has touched OpenMP: ranks are forked.

#ifndef TT_TESTS_CREW_H
#define TT_TESTS_CREW_H

#include "comm/launch.h"
#include "families.h"
#include "job/job.h"

#include <stdint.h>

enum { CREW_TENSORS = 600, CREW_NUMBERS = 32 << 20 };

typedef struct crew_run { // shared with the ranks
    int64_t n;
    struct {
        char name[96];
        int64_t first, count;
    } tensor[CREW_TENSORS];
    double before[CREW_NUMBERS], after[CREW_NUMBERS];
    double loss, norm;                            // of the last step
    int64_t param_bytes, optim_bytes, grad_bytes; // of rank 0's plan
} crew_run;

// What a rank does with its job; the arena is its own.
typedef tt_status crew_fn(tt_job *job, tt_arena *arena, void *user);

// Makes a family's job for a rank that was launched, with the collective that its
// settings name. `more` as for family_settings.
tt_status crew_be_rank(const tt_launch_rank *rank, const family *f,
                       const char *const *more, crew_fn *fn, void *user);

// `steps` on random data by `n` ranks. `more` as for family_settings.
crew_run *crew_train(const family *f, const char *const *more, int32_t n,
                     int64_t steps);
void crew_free(crew_run *run);

// The largest difference of updates, measured as design 7 does: per tensor of n of
// all N elements |a - b| / max(|b|, 0.01 |all| sqrt(n / N)). Frees neither.
double crew_difference(const crew_run *a, const crew_run *b,
                       const char **worst_out);

#endif
