// layer_rows - rows of a table that differ only in the number of a layer become one.
//
// A model of 48 layers has 48 rows for each kind of weight, all alike. "h.0.ln.weight"
// and "h.1.ln.weight" with equal cells are shown as "h.0-1.ln.weight". A layer that
// differs (the first, the last) stays a row of its own, and that is what the reader
// looks for.

#ifndef TT_CLI_LAYER_ROWS_H
#define TT_CLI_LAYER_ROWS_H

#include "base/arena.h"
#include "base/str.h"

#include <stdint.h>

enum { TT_LAYER_CELLS = 8 };

typedef struct tt_layer_row {
    const char
        *cell[TT_LAYER_CELLS]; // the first is the name; texts of the arena
    int64_t n;                 // rows that it stands for
    // The name before the number and after it; `after` is NULL where there is no
    // number.
    const char *before, *after;
    int64_t *number; // of each of them
} tt_layer_row;

typedef struct tt_layer_rows {
    tt_arena *arena;
    int n_cells;
    tt_layer_row *row;
    int64_t n, capacity;
    tt_status status; // sticky
} tt_layer_rows;      // set arena and n_cells, zero the rest

// Adds a row of n_cells texts, which are copied, or counts it with a row that is like
// it.
void tt_layer_rows_add(tt_layer_rows *rows, const char *const *cell);

// The name of all layers that the row stands for.
void tt_layer_rows_name(const tt_layer_row *row, tt_str *out);

#endif
