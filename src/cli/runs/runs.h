// runs - between the files of `tutti runs`.

#ifndef TT_CLI_RUNS_RUNS_H
#define TT_CLI_RUNS_RUNS_H

#include "base/json.h"
#include "cli/command.h"
#include "cli/term.h"
#include "store/history.h"
#include "store/metrics.h"

typedef struct tt_runs { // everything that is known
    tt_arena *arena;
    tt_term term;
    int64_t n;
    const tt_history_row *row; // newest first
    const char *out;           // file of a page
} tt_runs;

typedef struct tt_runs_one { // a run and what its folder says
    tt_history_row row;      // id 0: not in the history
    const char *name;        // its folder's, and more where others have it too
    tt_metrics metrics;
    bool has_metrics;
} tt_runs_one;

// The run called by its id, its folder or the last part of that.
tt_status tt__runs_find(const tt_runs *runs, const char *word,
                        tt_runs_one *out);

// Of a run that goes on, or was killed: what it has logged since the history was told.
tt_status tt__runs_refresh(tt_history_row *row);
// What the last of their metrics are: "at the end", "so far".
const char *tt__runs_when(const tt_runs_one *one, int n);

// "running", or "killed" when its process is gone.
const char *tt__runs_status(const tt_history_row *row);
// Why it failed, as its folder says; NULL: it did not, or nobody knows.
const char *tt__runs_error(const tt_history_row *row, tt_arena *arena);
// Gives each of the runs a name of its own.
tt_status tt__runs_name(tt_runs_one *one, int n, tt_arena *arena);
// The folder as one would type it here.
const char *tt__runs_folder(const tt_history_row *row);

void tt__runs_json(const tt_history_row *row, tt_arena *arena, tt_json *json);

tt_status tt__runs_compare(const tt_runs *runs, const tt_runs_one *one, int n,
                           tt_str *out);
tt_status tt__runs_compare_json(const tt_runs *runs, const tt_runs_one *one,
                                int n, tt_json *json);
// As a page, in the file.
tt_status tt__runs_compare_page(const tt_runs *runs, const tt_runs_one *one,
                                int n, const char *file);
// One metric of all of them on one scale; nothing where none has it.
void tt__runs_chart(const tt_runs *runs, const tt_runs_one *one, int n,
                    const char *name, tt_str *out);
tt_status tt__runs_show(const tt_runs *runs, const tt_runs_one *one,
                        tt_str *out);
tt_status tt__runs_show_json(const tt_runs_one *one, tt_arena *arena,
                             tt_json *json);

// The loss over the run, `columns` wide; empty when there is none.
void tt__runs_curve(const tt_runs_one *one, const char *name, int columns,
                    bool has_utf8, tt_str *out);

#endif
