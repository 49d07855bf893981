// spark - a curve as small as a word: a series of any length kept in a fixed
// number of means, drawn with blocks, or ASCII where there are none.

#ifndef TT_CLI_SPARK_H
#define TT_CLI_SPARK_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_SPARK_MAX = 256 };

typedef struct tt_spark {
    int n;            // means that are complete
    int64_t per_mean; // values in each; 0: no value yet
    double mean[TT_SPARK_MAX];
    double sum; // of the values that are not in a mean yet
    int64_t n_sum;
} tt_spark; // zero-initialise

void tt_spark_add(tt_spark *spark, double value); // not finite: ignored
// The same `n` times, in no more time.
void tt_spark_add_many(tt_spark *spark, double value, int64_t n);

// Appends exactly `columns` columns.
void tt_spark_draw(const tt_spark *spark, int columns, bool has_utf8,
                   tt_str *out);

#endif
