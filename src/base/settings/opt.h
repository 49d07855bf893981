// opt - option tables: the one way in which anything in the tree has settings.
//
// A def declares its settings as a table of tt_opt ended by {0}; the values live
// in a plain struct. Parsing, defaults, printing, help text and "did you mean"
// come from the table, so no central configuration struct exists.

#ifndef TT_BASE_OPT_H
#define TT_BASE_OPT_H

#include "base/arena.h"
#include "base/nearest.h"
#include "base/status.h"
#include "base/str.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum tt_opt_type {
    TT_OPT_I64,    // int64_t; 1e6 and 64k/1m/1g (powers of 1024) are read too
    TT_OPT_F64,    // double
    TT_OPT_BOOL,   // bool: true false yes no on off 1 0
    TT_OPT_CHOICE, // int: index into `choices`, "relu|gelu|none"
    TT_OPT_STR,    // const char *, in the arena given to the setter
    TT_OPT_I64S,   // tt_i64s: "3,3" or "[3, 3]"
    TT_OPT_F64S,   // tt_f64s: "0.5,0.25"
} tt_opt_type;

enum { TT_I64S_MAX = 16 };
typedef struct tt_i64s {
    int64_t n;
    int64_t v[TT_I64S_MAX];
} tt_i64s;
typedef struct tt_f64s {
    int64_t n;
    double v[TT_I64S_MAX];
} tt_f64s;

typedef struct tt_opt {
    const char *name;     // NULL ends the table
    const char *fallback; // default, as text; NULL: zero, empty
    const char *doc;
    tt_opt_type type;
    size_t offset;       // in the params struct
    const char *choices; // TT_OPT_CHOICE only
    // Of numbers (each of a list); both 0: any value; max below min: no upper
    // bound. Settings of users have both, so that none of them takes infinity.
    double min, max;
} tt_opt;

// The greatest number below 1, for a limit that is itself not allowed.
#define TT_BELOW_1 0x1.fffffffffffffp-1

// Fills `params` with the defaults.
tt_status tt_opt_defaults(const tt_opt *table, void *params, tt_arena *arena);

// Sets one option from text. An unknown name is TT_ERR_ARG and the message
// suggests the nearest; a bad value names the option, what was read, what is
// allowed. With params NULL the text is only checked.
tt_status tt_opt_set(const tt_opt *table, void *params, const char *name,
                     const char *value, tt_arena *arena);

// Parses "a=1 b=2,3 c=text" (blanks separate; a value with blanks is in double
// quotes) over values that are set already.
tt_status tt_opt_parse(const tt_opt *table, void *params, const char *text,
                       tt_arena *arena);

// Appends the value as text that tt_opt_set reads back to the same value.
void tt_opt_print_value(const tt_opt *opt, const void *params, tt_str *out);

// Appends "name=value" for every option that differs from its default,
// separated by blanks; everything when `all`.
void tt_opt_print(const tt_opt *table, const void *params, bool all,
                  tt_str *out);

// Several tables as one, in the arena. `offset` is where the struct of a part lies in
// the struct of the whole; a table may be NULL.
typedef struct tt_opt_part {
    const tt_opt *table;
    size_t offset;
} tt_opt_part;
tt_status tt_opt_join(const tt_opt_part *part, int n_parts, tt_arena *arena,
                      tt_opt **table_out);

const tt_opt *tt_opt_find(const tt_opt *table, const char *name); // or NULL

#endif
