// runs - training runs in a folder of their own, for tests of the loop.

#ifndef TT_TESTS_RUNS_H
#define TT_TESTS_RUNS_H

#include "train/loop.h"

// Enters a new folder; it is removed when the test ends well by runs_leave.
void runs_enter(void);
void runs_leave(void);
// The same where flushing costs nothing, if there is such a place: for many short runs.
void runs_enter_memory(void);

typedef struct runs_watch { // what a run said, and when it is to be stopped
    int64_t steps, points, evals, notes, warnings;
    int64_t stop_at; // calls of `step`; 0: never
    int64_t stop_at_point, stop_at_eval, stop_at_text; // the same of others
    int64_t texts;
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

// Trains in a process of its own, so that it can be killed: the k-th file call from its
// start on is its last (0: it is left alone). `more` as above; `w` is what it is told,
// and is not changed here. Its exit status: 0, 1 for a failure (said), 2 for a signal
// that was heeded; -1: killed.
int runs_child(const char *folder, const char *const *settings,
               const char *const *more, const runs_watch *w, int64_t k);

// A file of floats with labels, for data=csv; `n_bad` rows from `bad` on have a
// number so large that their loss is not finite.
void runs_write_csv(const char *path, int rows, int bad, int n_bad);

#endif
