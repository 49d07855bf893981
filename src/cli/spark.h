// spark - a curve as small as a word.
//
// A series of any length is kept in a fixed number of means. When they are full, pairs
// are merged and each mean stands for twice as many values. So memory is constant, the
// whole run stays visible, and adding a value costs the same after a million steps.
// The curve is drawn with block characters, or with ASCII where there is no UTF-8.

#ifndef TT_CLI_SPARK_H
#define TT_CLI_SPARK_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_SPARK_MAX = 256 };

typedef struct tt_spark {
    int n;            // complete means
    int64_t per_mean; // values in each; 0: no value yet
    double mean[TT_SPARK_MAX];
    double sum; // of values that are not in a mean yet
    int64_t n_sum;
} tt_spark; // zero-initialise

void tt_spark_add(tt_spark *spark, double value); // ignored if not finite
// The same value `n` times, without n calls.
void tt_spark_add_many(tt_spark *spark, double value, int64_t n);

// Appends exactly `columns` columns.
void tt_spark_draw(const tt_spark *spark, int columns, bool has_utf8,
                   tt_str *out);

#endif
