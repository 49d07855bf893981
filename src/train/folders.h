// folders - where a run lives: its default name, and what --fresh and --fork make
// of a folder that is there already.

#ifndef TT_TRAIN_FOLDERS_H
#define TT_TRAIN_FOLDERS_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

// "runs/NAME" for a configuration file (NULL: none) or else the model. All names
// are in the arena.
tt_status tt_run_default_folder(const char *file, const char *model,
                                tt_arena *arena, const char **folder_out);

bool tt_run_has_checkpoint(const char *folder);

// Fails where a new run would lie among others (the folder holds runs and is none), in a
// folder that was not made for it (the one we are in, one above it, one with folders in
// it), and where it would write over files that are nobody's run.
tt_status tt_run_check_folder(const char *folder, tt_arena *arena);

// Whether what is there could be renamed so, but for another process.
tt_status tt_run_check_aside(const char *folder, tt_arena *arena);

// Renames the folder to the first of FOLDER.1, FOLDER.2, ... that is free, so that
// nothing is lost; *aside_out is NULL when there was no folder, or an empty one. Fails
// while another process trains in it, when it is not the folder of a run, and when other
// runs lie in it.
tt_status tt_run_set_aside(const char *folder, tt_arena *arena,
                           const char **aside_out);

typedef struct tt_fork {
    const char *from, *to;
} tt_fork;

// Forks `folder` into the first free of FOLDER-fork, FOLDER-fork2, ...; or, when it
// has no checkpoint and `fallback` has one, that one into it.
tt_status tt_run_fork(const char *folder, const char *fallback, tt_arena *arena,
                      tt_fork *fork_out);

#endif
