// loop - trains: steps, metrics, evaluation, samples, checkpoints, and going on
// where an earlier start ended.
//
//   session -> tt_train -> RUN/config.yaml metrics.jsonl checkpoints/ ...
//
// What happens after step s, in this order: log (log.every), evaluate (eval.every),
// sample (sample.every), save (checkpoint.every, a new best). A checkpoint therefore
// knows all of step s, and 2N steps equal N, stop, N in every bit.
//
// The folder train: the life of a run: steps and what follows each, resuming, its folder,
// evaluation, what ranks did, what is told to a watch. It prints nothing. What does not
// belong here: what a step is (job), how bytes reach the disk (store, state).

#ifndef TT_TRAIN_LOOP_H
#define TT_TRAIN_LOOP_H

#include "session/session.h"
#include "train/watch.h"

#include <signal.h>

typedef struct tt_train_request {
    const char *folder;    // of the run
    const char *fork;      // run folder to go on from, in `folder`; NULL: none
    const char *command;   // that was typed, for the report; NULL: none was
    const tt_watch *watch; // NULL: nobody looks
    const volatile sig_atomic_t *stop; // not 0: finish the step, save, return;
                                       // NULL: never
} tt_train_request;

// Starts, or goes on from the newest good checkpoint in the folder; refuses to when
// settings changed that matter. `end_out` is filled in on success. A disk that is
// full is a warning as long as there is a later chance to save.
tt_status tt_train(tt_session *session, const tt_train_request *request,
                   tt_run_end *end_out);

// Whether tt_train would begin: folder, checkpoint, settings, data and weights are looked
// at as there, and nothing is written. `is_fresh`: what is in the folder is moved away
// before. Needs no ranks.
tt_status tt_train_check(tt_session *session, const tt_train_request *request,
                         bool is_fresh);

// The mean loss and accuracy over a split.
typedef struct tt_score {
    double loss, accuracy, perplexity; // perplexity: of tokens, else NaN
    double count;                      // targets
    int64_t samples;
    double seconds;
} tt_score;

// Bytes besides the plan's: what training needs in all.
typedef struct tt_train_memory {
    int64_t plan, evaluation, loader, snapshot;
    int64_t stage; // for collectives of a device
    int64_t total;
} tt_train_memory;
tt_status tt_train_memory_of(tt_session *session, tt_train_memory *memory_out);

// Bytes that a rank may take to copy states of which it has parts
// (checkpoint.memory). Where that is too little, checkpoints are written tensor by
// tensor while all ranks wait.
int64_t tt_train_save_most(const tt_session *session);

// Whether all of it is there, for the ranks of this host together. What is taken beyond
// a limit ends a process without a word, so it is refused before.
tt_status tt_train_check_memory(tt_session *session);

#endif
