// runs - training runs in a folder of their own, for tests of the loop.

#ifndef TT_TESTS_RUNS_H
#define TT_TESTS_RUNS_H

#include "train/loop.h"

// Enters a new folder; it is removed when the test ends well by runs_leave.
void runs_enter(void);
void runs_leave(void);

typedef struct runs_watch { // what a run said, and when it is to be stopped
    int64_t steps, points, evals, notes, warnings;
    int64_t stop_at; // calls of `step`; 0: never
    volatile sig_atomic_t stop;
    char note[256], warning[256]; // the last ones
} runs_watch;

// Trains in `folder` with "key=value" settings ended by NULL, twice: those that all
// runs of a test share, and more (may be NULL). `w` may be NULL.
tt_status runs_train(const char *folder, const char *const *settings,
                     const char *const *more, runs_watch *w,
                     tt_run_end *end_out);

// Both runs have the same newest checkpoint, bit for bit, and the same metrics but
// for times.
void runs_same(const char *a, const char *b);

// A file of floats with labels, for data=csv; `n_bad` rows from `bad` on have a
// number so large that their loss is not finite.
void runs_write_csv(const char *path, int rows, int bad, int n_bad);

#endif
