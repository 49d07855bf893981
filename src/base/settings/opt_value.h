// opt_value - one option's value: text to value and back. Internal to opt.

#ifndef TT_BASE_OPT_VALUE_H
#define TT_BASE_OPT_VALUE_H

#include "base/settings/opt.h"

typedef union tt_opt_value {
    int64_t i64;
    double f64;
    bool is_true;
    int choice;
    const char *str;
    tt_i64s i64s;
    tt_f64s f64s;
} tt_opt_value;

// Reads and checks `text`; a string is copied into the arena.
tt_status tt_opt_value_read(const tt_opt *opt, const char *text,
                            tt_arena *arena, tt_opt_value *value);

void tt_opt_value_store(const tt_opt *opt, const tt_opt_value *value,
                        void *params);
void tt_opt_value_load(const tt_opt *opt, const void *params,
                       tt_opt_value *value);
void tt_opt_value_print(const tt_opt *opt, const tt_opt_value *value,
                        tt_str *out);

#endif
