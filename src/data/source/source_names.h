// source_names - files that belong together by their names: images and labels,
// training and test. Internal to sources.

#ifndef TT_DATA_SOURCE_SOURCE_NAMES_H
#define TT_DATA_SOURCE_SOURCE_NAMES_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

// Whether the base name has this word in it; one letter must stand alone:
// x_train.npy.
bool tt__name_has(const char *path, const char *word);

// The path with the last `from` in its base name replaced by `to`; NULL when there
// is none (or no memory).
const char *tt__name_swap(tt_arena *arena, const char *path, const char *from,
                          const char *to);

// The path, or with ".gz" added or taken away, whichever is a file; else NULL.
const char *tt__name_existing(tt_arena *arena, const char *path);

// The file beside the training data `path` that is for validation: train becomes
// t10k, test, val, valid or validation. NULL: none.
const char *tt__name_of_val(tt_arena *arena, const char *path);

// The file that `path` means: itself, or in a folder the only candidate, or the
// only one with "train" in its name. Of NAME and NAME.gz the first is taken.
tt_status tt__name_main(const char *setting, const char *path,
                        bool is_candidate(const char *base), tt_arena *arena,
                        const char **path_out);

#endif
