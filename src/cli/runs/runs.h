// runs - shared by the files of `tutti runs`. Internal.
//
// What is known about a run comes from two places. The history (store/history.h) lists
// all runs, but is written only now and then. The run's folder has everything, and is
// newer while the run goes on. So a row that is still open is refreshed from the
// folder.

#ifndef TT_CLI_RUNS_RUNS_H
#define TT_CLI_RUNS_RUNS_H

#include "base/json.h"
#include "cli/command.h"
#include "cli/term.h"
#include "store/history.h"
#include "store/metrics.h"

// All runs that are known.
typedef struct tt_runs {
    tt_arena *arena;
    tt_term term;
    int64_t n;
    const tt_history_row *row; // newest first
    const char *out;           // file of a page
} tt_runs;

// One run, and what its folder says.
typedef struct tt_runs_one {
    tt_history_row row; // id 0: not in the history
    const char *name;   // the folder's name, longer where it is not unique
    tt_metrics metrics;
    bool has_metrics;
} tt_runs_one;

// Finds a run by its id, its folder, or the last part of the folder's name.
tt_status tt__runs_find(const tt_runs *runs, const char *word,
                        tt_runs_one *out);

// Updates the row of a run that goes on, or was killed, from what it has logged.
tt_status tt__runs_refresh(tt_history_row *row);
// What the last values of metrics are: "at the end", "so far".
const char *tt__runs_when(const tt_runs_one *one, int n);

// The status; "killed" where the row says "running" but the process is gone.
const char *tt__runs_status(const tt_history_row *row);
// Why a run failed, from its folder; NULL: it did not fail, or it is not known.
const char *tt__runs_error(const tt_history_row *row, tt_arena *arena);
// Gives each of the runs a name that no other of them has.
tt_status tt__runs_name(tt_runs_one *one, int n, tt_arena *arena);
// The folder as one would type it in the current folder.
const char *tt__runs_folder(const tt_history_row *row);

void tt__runs_json(const tt_history_row *row, tt_arena *arena, tt_json *json);

tt_status tt__runs_compare(const tt_runs *runs, const tt_runs_one *one, int n,
                           tt_str *out);
tt_status tt__runs_compare_json(const tt_runs *runs, const tt_runs_one *one,
                                int n, tt_json *json);
// The comparison as an HTML page in a file.
tt_status tt__runs_compare_page(const tt_runs *runs, const tt_runs_one *one,
                                int n, const char *file);
// One metric of all runs on one scale; nothing if no run has it.
void tt__runs_chart(const tt_runs *runs, const tt_runs_one *one, int n,
                    const char *name, tt_str *out);
tt_status tt__runs_show(const tt_runs *runs, const tt_runs_one *one,
                        tt_str *out);
tt_status tt__runs_show_json(const tt_runs_one *one, tt_arena *arena,
                             tt_json *json);

// A metric over the run as a sparkline; empty if there is none.
void tt__runs_curve(const tt_runs_one *one, const char *name, int columns,
                    bool has_utf8, tt_str *out);

#endif
