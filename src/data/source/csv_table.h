// csv_table - a CSV file whose rows are samples: numbers, a label in one column, and
// whose the sample is in another, where somebody asks. All of it is checked when it is opened; rows are then read at any place.

#ifndef TT_DATA_SOURCE_CSV_TABLE_H
#define TT_DATA_SOURCE_CSV_TABLE_H

#include "base/arena.h"
#include "base/status.h"
#include "data/files.h"
#include "data/source/csv.h"

enum { TT_CSV_LABEL_MAX = 1 << 24 };

typedef enum tt_csv_header {
    TT_CSV_HEADER_AUTO, // see csv_header.h
    TT_CSV_HEADER_YES,
    TT_CSV_HEADER_NO,
} tt_csv_header;

typedef struct tt_csv_table {
    const char *path;
    tt_blob blob;
    tt_csv csv;
    bool has_header;
    int64_t first_row; // byte of the first sample
    int64_t n_columns, n_rows;
    int64_t label;    // its column
    int64_t user;     // the column that says whose a row is; -1: none
    bool is_named;    // a column was found by its name, so there are names
    int64_t *place;   // byte of every so many-th row
    bool has_numbers; // labels are whole numbers, 0 and up
    int64_t n_labels; // then: one more than the greatest
    bool has_bytes;   // all else are whole numbers below 256
} tt_csv_table;

// `label` is the name or number (from 0) of the label's column; "": a column
// called label, class or target, else the last. `user` is that of the column that says
// whose a row is; "": none does.
tt_status tt_csv_table_open(tt_csv_table *table, const char *path,
                            char separator, tt_csv_header header,
                            const char *label, const char *user);
void tt_csv_table_close(tt_csv_table *table);

// The byte where row `row` (from 0, without the header) begins.
int64_t tt_csv_table_row(const tt_csv_table *table, int64_t row);

// What is in a column of the row that begins at byte *at, blanks around it left out; *at
// moves to the next row.
tt_csv_field tt_csv_table_field(const tt_csv_table *table, int64_t column,
                                int64_t *at);

#endif
