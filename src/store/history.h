// history - every run that was made, in one SQLite file: for `tutti runs`.

#ifndef TT_STORE_HISTORY_H
#define TT_STORE_HISTORY_H

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

typedef struct tt_history tt_history;

typedef struct tt_history_row {
    int64_t id;
    const char *folder, *model, *status; // "running" "done" "stopped" "failed"
    const char *config;                  // the resolved settings, as YAML
    const char *started, *ended;         // ISO 8601, UTC; "" while running
    int64_t step, steps, parameters;
    double seconds; // of training, all starts together
    double train_loss, val_loss, best_loss, accuracy; // NaN: not known
} tt_history_row;

// Opens or makes the file. This and every later call wait at most 30 seconds for
// other writers.
tt_status tt_history_open(const char *path, tt_history **history_out);
void tt_history_close(tt_history *history); // NULL is fine

// Adds the run or, when its folder is there already, replaces its row and keeps the
// id. Folders are known by their full names.
tt_status tt_history_put(tt_history *history, const tt_history_row *row);

// The row of that folder, in the arena; *row_out is NULL when there is none.
tt_status tt_history_find(tt_history *history, const char *folder,
                          tt_arena *arena, const tt_history_row **row_out);

// The run of that folder, by its full name, is now in another one. A row that the other
// had belongs to a folder that is gone.
tt_status tt_history_move(tt_history *history, const char *from,
                          const char *to);

// All rows, newest first, in the arena.
tt_status tt_history_list(tt_history *history, tt_arena *arena,
                          const tt_history_row **rows_out, int64_t *n_out);

#endif
