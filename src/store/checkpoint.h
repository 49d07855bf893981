// checkpoint - folders of tensors that never lie.
//
//   FOLDER/step-00000200/model.safetensors   weights, ecosystem's names
//                        optim.safetensors   optimiser state, EMA, ...
//                        config.json, tokenizer.json, ...
//                        state.json          what the trainer wants back, and the
//                                            XXH3 of every file, of its own too
//   FOLDER/latest                            the name of the newest, for people
//   FOLDER/best                              the name of the best, if one is marked
//   FOLDER/step-00000150.damaged             one that was found to be damaged
//
// A checkpoint is written to a temporary folder beside it, flushed, and renamed;
// it is there as a whole or not at all. One process at a time owns FOLDER (a lock
// says so). Writing happens in a thread of its own; one checkpoint at a time.

#ifndef TT_STORE_CHECKPOINT_H
#define TT_STORE_CHECKPOINT_H

#include "base/arena.h"
#include "base/status.h"
#include "base/str.h"
#include "store/safetensors.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_checkpoints tt_checkpoints; // the folder

typedef struct tt_checkpoint_rules {
    int64_t keep;       // newest to keep; at least 1
    int64_t keep_every; // and those whose step is a multiple of it; 0: none
} tt_checkpoint_rules;

typedef struct tt_checkpoint_text { // one small file
    const char *name;               // "config.json"
    const char *text;
    int64_t n;
} tt_checkpoint_text;

// What goes into a checkpoint. Tensors' data point into `memory`; everything else
// is copied before the call returns.
typedef struct tt_checkpoint_content {
    int64_t step;
    bool
        is_passing; // because of a signal or of time: counts for no rule, and goes
                    // when the next one is written
    const tt_safetensor *model, *optim;
    int64_t n_model, n_optim; // no file for optim when it has none
    const tt_checkpoint_text *text;
    int n_text;
    const char *state; // a JSON object; stored in state.json under "state"
    void *memory;      // of tt_alloc_aligned, taken over by a save that returns
        // TT_OK; NULL: the data stay as they are until the next wait
    // Returns when all data are there; called by the thread that writes them. NULL:
    // they are.
    tt_status (*ready)(void *user);
    // The data of each tensor when it is written, those of the model first, each file
    // in tt_safetensors_order; called by the thread that writes. NULL: they are there.
    tt_status (*fetch)(void *user, const tt_safetensor *tensor,
                       const void **data_out);
    void *user;
} tt_checkpoint_content;

// Takes the folder (made if it is not there), removes what a crash left behind.
// Fails with TT_ERR_STATE when another process has it. One thread at a time.
tt_status tt_checkpoints_open(const char *folder,
                              const tt_checkpoint_rules *rules,
                              tt_checkpoints **store_out);
// Waits for what is under way; to hear whether it failed, wait before. NULL is fine.
void tt_checkpoints_close(tt_checkpoints *store);

// Waits for the save before, hands this one to the thread and returns. A save that
// fails (disk full) leaves the older checkpoints as they are, and is reported by
// the next save or wait; a save that reports the one before has not begun itself
// (`memory` stays the caller's) and may be called again. Checkpoints of later steps
// belong to a future that was left: they go once this one is written.
tt_status tt_checkpoints_save(tt_checkpoints *store,
                              const tt_checkpoint_content *content);
tt_status tt_checkpoints_wait(tt_checkpoints *store);
// The same by the calling thread, which waits for it: for data that are not all there
// at once. `memory` is not taken.
tt_status tt_checkpoints_save_now(tt_checkpoints *store,
                                  const tt_checkpoint_content *content);
// Whether a save is being written, so that another one would have to wait.
bool tt_checkpoints_busy(const tt_checkpoints *store);

// Marks the checkpoint of `step`, whose save was called before, as the best so far:
// rules never remove it; the one marked before loses its mark. Written in the same
// background, after the save. A crash may come between the two, so a trainer that
// resumes marks again what its state says.
tt_status tt_checkpoints_mark_best(tt_checkpoints *store, int64_t step);
int64_t tt_checkpoints_best(tt_checkpoints *store); // its step, or -1

// Removes the checkpoints after `step` (-1: all): the run goes on from there. Those
// that were found to be bad are renamed step-00000150.damaged.
tt_status tt_checkpoints_cut(tt_checkpoints *store, int64_t step);
// The run goes on from `step`: what a crash may have left undone is done. Cuts, names
// the latest, marks `best` (-1: leaves the mark as it is) and removes what no rule
// keeps.
tt_status tt_checkpoints_settle(tt_checkpoints *store, int64_t step,
                                int64_t best);

// The step of the newest that is there and was not found to be damaged; -1: none.
tt_status tt_checkpoints_last(const tt_checkpoints *store, int64_t *step_out);

// The newest that was saved is not there, though nothing here removed it: its step, else
// -1. Before the run is settled, which forgets it.
tt_status tt_checkpoints_missing(const tt_checkpoints *store,
                                 int64_t *step_out);

// Whether a folder of checkpoints shows that one was saved in it, be it damaged or gone.
tt_status tt_checkpoints_trace(const char *folder, bool *found_out);

// A checkpoint that was opened and in which all is right but perhaps its tensors'
// data: where that was not read, every tensor has a sum, and who reads it checks it.
typedef struct tt_checkpoint {
    tt_arena *arena;
    const char *folder; // of this checkpoint
    int64_t step;
    bool is_passing;
    const char *state; // JSON text
    tt_safetensors *model;
    tt_safetensors *optim; // NULL when it was saved without
} tt_checkpoint;

// The newest good one, but for its data; *out is NULL when there is none. Each bad
// one on the way is named in `notes`, a sentence a line, with what is wrong with it.
// One that cannot be read may be good: that is a failure (TT_ERR_IO).
tt_status tt_checkpoints_newest(tt_checkpoints *store, tt_str *notes,
                                tt_checkpoint **out);
// The same of those up to `step`: for going back.
tt_status tt_checkpoints_upto(tt_checkpoints *store, int64_t step,
                              tt_str *notes, tt_checkpoint **out);
// The data of that of `step` is damaged: no rule keeps it any longer.
tt_status tt_checkpoints_reject(tt_checkpoints *store, int64_t step);

typedef struct tt_checkpoint_search {
    bool wants_best;  // of a run: the best one, if one is marked
    bool leaves_data; // data that have sums are not read
    int64_t limit;    // the last step to look at
    bool is_optional; // none is no failure: NULL
} tt_checkpoint_search;

// One by its folder, wherever it lies; needs no lock. A folder of checkpoints
// stands for its newest good one, a run folder for its checkpoints. `search` NULL:
// of any step, with all data read. One that a training run removes or replaces
// meanwhile is no failure: the next one is taken. What was opened stays readable.
tt_status tt_checkpoint_read(const char *folder,
                             const tt_checkpoint_search *search, tt_str *notes,
                             tt_checkpoint **out);
void tt_checkpoint_close(tt_checkpoint *checkpoint); // NULL is fine

// A small file of the checkpoint, in its arena; TT_ERR_ARG when it has none.
tt_status tt_checkpoint_text_read(const tt_checkpoint *checkpoint,
                                  const char *name, const char **text_out,
                                  int64_t *n_out);

#endif
