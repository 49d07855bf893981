// csv_header - whether the first row of a table has names. Internal to csv_table.

#ifndef TT_DATA_SOURCE_CSV_HEADER_H
#define TT_DATA_SOURCE_CSV_HEADER_H

#include "data/source/csv.h"

// The first row is one of names when
//   a text is where a number should be;
//   all of its fields are quoted and not all of the second row's are;
//   its label is a text, and those of the next rows are numbers;
//   its label is a text that no other row has, and it is "label" or the like, or the
//   other fields are 0, 1, 2, ... (what pandas calls columns without names);
//   all of its fields are 0, 1, 2, ..., and there are TT_CSV_COUNTED of them at
//   least: fewer may be a sample.
enum { TT_CSV_COUNTED = 8 };
// The column `user` (-1: none) may have texts and says nothing.
bool tt__csv_has_header(const tt_csv *csv, int64_t n_columns, int64_t label,
                        int64_t user);

// Whether the names of a label's column are usual: label, class, target.
bool tt__csv_is_label_name(const tt_csv_field *field);

#endif
