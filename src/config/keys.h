// keys - every key that a configuration may have, whichever part of the program
// reads it: so that a file serves all commands, and a typo is found by all of them.
//
// The folder config: the tables of all settings (type, default, range, help), reading
// them into structs, names that other programs use for them, and what a typo meant. What
// does not belong here: anything that acts on a setting (job, session, train).

#ifndef TT_CONFIG_KEYS_H
#define TT_CONFIG_KEYS_H

#include "base/arena.h"
#include "base/settings/settings.h"

typedef struct tt_config tt_config;

// Calls `visit` for the tables of all sections: prefix "" for the top, "model" and
// "optim" as the settings choose them, "data" with its source, "train", ... `params` is
// the struct that a table's offsets refer to, inside `config`; NULL for data, whose
// options lie elsewhere, and where `config` is NULL.
typedef tt_status tt_keys_fn(void *user, const char *prefix,
                             const tt_opt *table, void *params);
tt_status tt_keys_each(const tt_settings *settings, tt_config *config,
                       tt_arena *arena, tt_keys_fn *visit, void *user);

// The table of the key "data" itself.
extern const tt_opt tt_keys_data[];

// Fails on the first setting that no table has, with its place and the nearest key
// of all sections, or whose value its table does not take. `extra` (may be NULL)
// are further keys at the top that the caller reads.
tt_status tt_keys_check(const tt_settings *settings, const tt_opt *extra,
                        tt_arena *arena);

// One setting of all that there are.
typedef struct tt_keys_row {
    const char *key; // "model.layers"
    const tt_opt *opt;
    // Which models, optimisers or sources have it so, ", " between them; "": all
    // of them, or it belongs to none.
    const char *of;
} tt_keys_row;

// Every setting of every model, optimiser and source, in the arena. A key whose
// default or meaning is another elsewhere has several rows.
tt_status tt_keys_all(tt_arena *arena, const tt_keys_row **row_out,
                      int64_t *n_out);

#endif
