// columns - a table of texts, in which every column is as wide as its widest cell.
// Where the terminal is too narrow, whole columns are left out, the least wanted
// first: a wrapped table cannot be read.

#ifndef TT_CLI_COLUMNS_H
#define TT_CLI_COLUMNS_H

#include "base/arena.h"
#include "base/str.h"
#include "cli/term.h"

#include <stdint.h>

typedef struct tt_columns {
    tt_arena *arena;
    int n;          // columns
    uint64_t right; // bit i: column i is aligned to the right
    int width;      // columns of the terminal; 0: no limit
    // Columns to leave out, in this order, until the table fits; 0 ends the list.
    int drop[8];
    const char **cell;
    int64_t n_cells, capacity;
    tt_status status; // sticky
} tt_columns;         // set arena, n and right, zero the rest

// The next cell of the row. Its text is copied and made safe for a terminal.
void tt_columns_add(tt_columns *columns, const char *text);
__attribute__((format(printf, 2, 3))) void
tt_columns_addf(tt_columns *columns, const char *fmt, ...);
// A number with so many significant digits; "-" for NaN.
void tt_columns_add_number(tt_columns *columns, double value, int digits);

// Appends all rows. The first row is the heading.
tt_status tt_columns_print(const tt_columns *columns, const tt_term *term,
                           tt_str *out);

#endif
