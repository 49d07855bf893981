// globs - lists of patterns (base/glob.h) over tensor names. A list is "a*,b*" or
// "[a*, b*]".

#ifndef TT_CONFIG_GLOBS_H
#define TT_CONFIG_GLOBS_H

#include "base/arena.h"
#include "base/glob.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_glob {
    const char *pattern;
    double factor; // of "PATTERN:FACTOR"; else 1
} tt_glob;

typedef struct tt_globs {
    int64_t n;
    tt_glob *v; // in the arena
} tt_globs;

// `key` is what errors call it: "train.freeze". With `has_factor` every pattern is
// followed by ":NUMBER", at least 0.
tt_status tt_globs_read(const char *key, const char *text, bool has_factor,
                        tt_arena *arena, tt_globs *out);

// The first pattern that matches, or NULL.
const tt_glob *tt_globs_find(const tt_globs *globs, const char *name);

#endif
