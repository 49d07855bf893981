// csv - rows and fields of a table as text (RFC 4180): quotes, doubled quotes in
// them, either kind of line end. Nothing is copied; a field may be read by any
// thread.

#ifndef TT_DATA_SOURCE_CSV_H
#define TT_DATA_SOURCE_CSV_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_csv {
    const char *text;
    int64_t n;
    char separator;
} tt_csv;

typedef struct tt_csv_field {
    const char *p; // between the quotes if there are any
    int64_t n;
    bool is_quoted; // "" in it stands for one quote
    bool is_broken; // a quote that does not end, or text after it
} tt_csv_field;

// The field at byte *at, which moves to the next one. False: it was the last of its
// row, and *at is the beginning of the next row.
bool tt_csv_next(const tt_csv *csv, int64_t *at, tt_csv_field *field_out);

// Skips the rest of a row from the beginning of a field on.
void tt_csv_skip_row(const tt_csv *csv, int64_t *at);

// Whether there is nothing but line ends from here on.
bool tt_csv_is_end(const tt_csv *csv, int64_t at);

// Without blanks around it.
tt_csv_field tt_csv_trim(tt_csv_field field);

// A finite decimal number and nothing else but blanks around it. Correctly rounded.
bool tt_csv_number(const tt_csv_field *field, double *value_out);

#endif
