// paths - relative paths of a run's settings are relative to where it was started.

#ifndef TT_CLI_PATHS_H
#define TT_CLI_PATHS_H

#include "base/arena.h"
#include "base/settings/settings.h"

// Makes the paths of data in `settings`, as a run saved them, good from anywhere.
// `folder` is the run's or one of its checkpoints'. Where the run was started follows
// from where its folder is now and what it was called then, so that both may have
// been moved together; where that does not follow, nothing changes and *start_out is
// "".
tt_status tt_paths_from(tt_settings *settings, const char *folder,
                        tt_arena *arena, const char **start_out);

#endif
