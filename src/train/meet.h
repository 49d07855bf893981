// meet - before the first step ranks make sure that they are about to do the same:
// program, settings, graph, order of collectives.

#ifndef TT_TRAIN_MEET_H
#define TT_TRAIN_MEET_H

#include "train/job.h"

// `settings` are all that matter, resolved; `program` says which build this is. All
// ranks of a planned job call it; alone it does nothing.
tt_status tt_job_meet(const tt_job *job, const tt_settings *settings,
                      const char *program);

#endif
