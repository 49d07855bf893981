// progress - shows a run to its user.
//
// The training loop prints nothing. It tells a watch (train/watch.h), and this is the
// watch of the program. Where standard error is a terminal, it shows a table, then two
// live lines that are redrawn in place, with everything worth keeping printed above
// them:
//
//   eval 500/2000  loss 1.9042  best
//   620/2000  31%  ------------------------         0:36 left      <- live
//   loss 1.8870  ..--^^  val 1.9042  41.2k tokens/s  lr 9.1e-04    <- live
//
// Where standard output is not a terminal (a log file), it gets plain lines, one per
// logged point. Both may happen at once.
//
// The terminal's modes are never changed, so nothing has to be restored, whatever ends
// the program.

#ifndef TT_CLI_PROGRESS_PROGRESS_H
#define TT_CLI_PROGRESS_PROGRESS_H

#include "base/status.h"
#include "train/watch.h"

#include <signal.h>
#include <stdbool.h>

typedef struct tt_progress tt_progress; // one thread at a time

// With `wants_stdout` false, standard output is kept for something else (--json).
// Plain lines then go to standard error, if that is not a terminal.
tt_status tt_progress_open(bool wants_stdout, tt_progress **progress_out);

// The signal handler that raises `stop` may have written to the terminal. Once `stop`
// is raised, the live lines begin again below that text.
void tt_progress_heed(tt_progress *progress, const volatile sig_atomic_t *stop);

// Ends the live lines and leaves the cursor below them. NULL is fine.
void tt_progress_close(tt_progress *progress);

// What the training loop calls; lives as long as the progress.
const tt_watch *tt_progress_watch(const tt_progress *progress);

#endif
