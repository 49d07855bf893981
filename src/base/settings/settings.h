// settings - what the user asked for: dotted keys with text values, in the order
// of the file, each with the place it came from, so that every message can name
// it. Option tables give the values their types.

#ifndef TT_BASE_SETTINGS_H
#define TT_BASE_SETTINGS_H

#include "base/arena.h"
#include "base/settings/opt.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_SETTINGS_MAX = 4096 };

typedef struct tt_setting {
    const char *key;    // "model.layers"
    const char *value;  // "6", "[3, 3]"
    const char *origin; // "gpt.yaml:3:7" or "command line"
    bool used;          // somebody asked for it
} tt_setting;

typedef struct tt_settings {
    int64_t n, capacity;
    tt_setting *v; // in the arena given to tt_settings_set
    // Where this machine keeps what it has measured; NULL: nowhere. No setting, since
    // it says nothing about what is computed.
    const char *cache;
    // Of who only plans: a device that is not here is described, and a rank may use
    // so many bytes (0: what is here).
    bool is_plan;
    int64_t memory;
} tt_settings; // zero-initialise

// Replaces the value and origin of `key`, or appends it. Copies all text.
tt_status tt_settings_set(tt_settings *settings, const char *key,
                          const char *value, const char *origin,
                          tt_arena *arena);

// The same from "key=value".
tt_status tt_settings_assign(tt_settings *settings, const char *text,
                             const char *origin, tt_arena *arena);

// The value of `key`, marked as used; NULL when it was not given.
const char *tt_settings_get(tt_settings *settings, const char *key);

// The setting itself, not marked; or NULL.
tt_setting *tt_settings_find(const tt_settings *settings, const char *key);

// Sets every option "prefix.name" ("name" when prefix is "") in `params` from
// the settings and marks it used. With a prefix, a setting below it that is not
// in the table is an error; a name with a further dot is left to other tables.
// Nothing is set unless all of it can be.
tt_status tt_settings_apply(tt_settings *settings, const char *prefix,
                            const tt_opt *table, void *params, tt_arena *arena);

// Checks of what several settings mean together know keys and values, not places. Their
// messages begin with "KEY: " or "KEY=VALUE"; this puts before them where the setting
// stands. Other messages stay as they are. Returns `status`.
tt_status tt_settings_fail_context(const tt_settings *settings,
                                   tt_status status);

// Fails on the first setting that nobody used and suggests the nearest of the
// `n` known keys.
tt_status tt_settings_check_unused(const tt_settings *settings,
                                   const char *const *known, int n);

#endif
