// record - the history of runs on this machine, as `tutti runs` lists it.
//
// A run's folder knows everything about that run. The history only knows which runs
// there are, so that they can be listed and compared. It is an SQLite file with a row
// per run.

#ifndef TT_CLI_RECORD_H
#define TT_CLI_RECORD_H

#include "base/arena.h"
#include "base/status.h"
#include "train/watch.h"

// $XDG_STATE_HOME/tutti/runs.db, or ~/.local/state/tutti/runs.db.
tt_status tt_record_path(tt_arena *arena, const char **path_out);

// A run was renamed: its row follows. `from` is its former full path. A history that
// does not exist or cannot be written is not a failure of the run.
void tt_record_move(const char *from, const char *to, tt_arena *arena);

typedef struct tt_record tt_record;

// A watch that passes everything on to `shown` and keeps the run's row: at the start,
// after every evaluation, at the end. A history that cannot be written is a warning,
// never a reason to stop.
tt_status tt_record_open(const tt_watch *shown, tt_record **record_out);
const tt_watch *tt_record_watch(tt_record *record);
// A run that did not say how it ended has failed. NULL is fine.
void tt_record_close(tt_record *record);

#endif
