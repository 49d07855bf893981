// progress - shows a run to its user.
//
// Where standard error is a terminal: a table, then two lines that are redrawn in
// place, with everything worth keeping printed above them. Where standard output
// is no terminal, it gets plain lines, one per logged point. Nothing about the
// terminal is changed, so nothing has to be restored, whatever ends the program.

#ifndef TT_CLI_PROGRESS_PROGRESS_H
#define TT_CLI_PROGRESS_PROGRESS_H

#include "base/status.h"
#include "train/watch.h"

#include <signal.h>
#include <stdbool.h>

typedef struct tt_progress tt_progress; // one thread at a time

// `wants_stdout` false: standard output is kept for something else (--json), plain
// lines go to standard error where that is no terminal.
tt_status tt_progress_open(bool wants_stdout, tt_progress **progress_out);

// A signal's handler that raises `stop` may have written to the terminal: once it
// is raised, the live lines begin again below that.
void tt_progress_heed(tt_progress *progress, const volatile sig_atomic_t *stop);

// Ends the live lines and leaves the cursor below them. NULL is fine.
void tt_progress_close(tt_progress *progress);

// What the training loop calls; lives as long as the progress.
const tt_watch *tt_progress_watch(const tt_progress *progress);

#endif
