// str - a string that grows. Failure is sticky: after memory ran out appends do
// nothing and tt_str_status says so, so that printers need no check per line.

#ifndef TT_BASE_STR_H
#define TT_BASE_STR_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_str {
    char *text; // always terminated once something was appended; else NULL
    int64_t n, capacity;
    tt_status status;
} tt_str; // zero-initialise

void tt_str_add(tt_str *s, const char *text);
void tt_str_add_bytes(tt_str *s, const char *bytes, int64_t n);
__attribute__((format(printf, 2, 3))) void tt_str_addf(tt_str *s,
                                                       const char *fmt, ...);
void tt_str_add_f64(tt_str *s, double value); // shortest that reads back equal
const char *tt_str_text(const tt_str *s);     // "" when empty
tt_status tt_str_status(const tt_str *s);
// A failure of `from` is one of `to`: for texts that are made of others.
void tt_str_inherit(tt_str *to, const tt_str *from);
void tt_str_clear(tt_str *s); // keeps the memory
void tt_str_fini(tt_str *s);

// The text in the arena, and the end of the string. NULL: memory ran out, now or while
// it grew.
typedef struct tt_arena tt_arena;
const char *tt_str_keep(tt_str *s, tt_arena *arena);

bool tt_ends_with(const char *text, const char *end);

#endif
