// table - names and values in two columns, and numbers in the form that people read.

#ifndef TT_CLI_TABLE_H
#define TT_CLI_TABLE_H

#include "base/figures.h"
#include "base/str.h"
#include "cli/term.h"

#include <stdint.h>

// Appends "  name       value" and a line end. A value that is too long for `width`
// columns continues below itself; 0: no limit.
void tt_table_row(const tt_term *term, const char *name, const char *value,
                  int width, tt_str *out);

typedef struct tt_wrapping {
    int64_t width;      // columns; 0: no limit
    int64_t used;       // columns of the first line that are taken already
    const char *indent; // of the other lines
} tt_wrapping;

// Appends text wrapped at blanks. A word that is longer than a line stays whole.
void tt_add_wrapped(tt_str *out, const char *text, const tt_wrapping *wrap);

void tt_add_loss(tt_str *out, double loss); // 1.8870; 3.2e+41 where it exploded
void tt_add_seconds(tt_str *out, double seconds); // 29.1 ms, 4.2 s, 1:02:03
void tt_add_left(tt_str *out, double seconds);    // 0:36, 1:02:03
void tt_add_word(tt_str *out, const char *text);  // quoted for a shell

#endif
