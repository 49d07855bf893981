// record - the history of runs, as the program keeps it.

#ifndef TT_CLI_RECORD_H
#define TT_CLI_RECORD_H

#include "base/arena.h"
#include "base/status.h"
#include "train/watch.h"

// $XDG_STATE_HOME/tutti/runs.db, or ~/.local/state/tutti/runs.db.
tt_status tt_record_path(tt_arena *arena, const char **path_out);

// A run was renamed: its row goes with it. `from` is its full name of before. A history
// that there is not, or that cannot be written, is no failure of the run.
void tt_record_move(const char *from, const char *to, tt_arena *arena);

typedef struct tt_record tt_record;

// A watch that passes everything on to `shown` and keeps the row of the run: when
// it starts, after every evaluation, when it ends. A history that cannot be written
// is a warning, never a reason to stop.
tt_status tt_record_open(const tt_watch *shown, tt_record **record_out);
const tt_watch *tt_record_watch(tt_record *record);
// A run that did not say how it ended has failed. NULL is fine.
void tt_record_close(tt_record *record);

#endif
