// run_parts - between the files of the run folder. Internal.

#ifndef TT_STORE_RUN_PARTS_H
#define TT_STORE_RUN_PARTS_H

#include "base/status.h"
#include "base/str.h"
#include "store/run.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { TT__RUN_FILE_MAX = INT_MAX }; // bytes of a file that is read as a whole

tt_status tt__run_path(const char *folder, const char *name,
                       char path[PATH_MAX]);

// Bytes of the file's start that are whole lines.
int64_t tt__run_whole_lines(const char *text, int64_t n);
// Bytes of the start that are whole records.
int64_t tt__run_whole_events(const char *text, int64_t n);

// Append what of a file's text is not after `step`.
typedef void tt__run_keep_fn(const tt_str *text, int64_t step, tt_str *out);
tt__run_keep_fn tt__run_keep_metrics, tt__run_keep_log, tt__run_keep_events;

// Where to cut: after a step, at a mark.
typedef struct tt__run_cut_at {
    int64_t step;
    const tt_run_mark *mark;
    tt_str *notes; // gets what is missing
} tt__run_cut_at;

// Rewrites the file so; not there: fine. Metrics end at the mark, if it is right; lines
// of the log that came later in the same step stay.
tt_status tt__run_cut_lines(const char *path, const tt__run_cut_at *cut,
                            tt__run_keep_fn *keep);

// Of events, those that were logged.
void tt__run_hash_events(const char *text, int64_t n, tt_hasher *hasher,
                         int64_t *bytes_out);

// The newest of the folder's event files; *found tells whether there is one.
tt_status tt__run_find_events(const char *folder, char path[PATH_MAX],
                              bool *found);
// A name that sorts after all that are there.
tt_status tt__run_name_events(const char *folder, char path[PATH_MAX]);
// Makes `path` from what the folder's newest holds up to `step`, and removes the
// others: there is one file, and a TensorBoard that watches sees a new one.
tt_status tt__run_cut_events(const char *folder, const tt__run_cut_at *cut,
                             const char *path);

double tt__run_wall(void); // seconds since 1970

#endif
