#include "cli/spark.h"

#include <math.h>

static void merge_pairs(tt_spark *s)
{
    for (int64_t i = 0; i < TT_SPARK_MAX / 2; i++)
        s->mean[i] = (s->mean[2 * i] + s->mean[2 * i + 1]) / 2;
    s->n = TT_SPARK_MAX / 2;
    s->per_mean *= 2;
}

void tt_spark_add_many(tt_spark *s, double value, int64_t n)
{
    if (!isfinite(value))
        return;
    if (s->per_mean == 0)
        s->per_mean = 1;
    while (n > 0) {
        const int64_t room = s->per_mean - s->n_sum;
        const int64_t some = n < room ? n : room;
        s->sum += value * (double)some;
        s->n_sum += some;
        n -= some;
        if (s->n_sum < s->per_mean)
            return;
        s->mean[s->n++] = s->sum / (double)s->n_sum;
        s->sum = 0;
        s->n_sum = 0;
        if (s->n == TT_SPARK_MAX)
            merge_pairs(s);
    }
}

void tt_spark_add(tt_spark *s, double value)
{
    tt_spark_add_many(s, value, 1);
}

// The mean of the part of the series that falls on column `i` of `n`.
static double column_value(const tt_spark *s, int i, int n)
{
    const int first = (int)((int64_t)i * s->n / n);
    int last = (int)((int64_t)(i + 1) * s->n / n);
    if (last <= first)
        last = first + 1;
    double sum = 0;
    for (int k = first; k < last; k++)
        sum += s->mean[k];
    return sum / (last - first);
}

enum { MAX_COLUMNS = 64 };

// The curve as heights from 0 to just below 1; returns how many columns have one.
static int heights(const tt_spark *s, int columns, double *out)
{
    const int n = s->n < columns ? s->n : columns;
    double low = HUGE_VAL, high = -HUGE_VAL;
    for (int i = 0; i < n; i++) {
        out[i] = column_value(s, i, n);
        low = fmin(low, out[i]);
        high = fmax(high, out[i]);
    }
    for (int i = 0; i < n; i++)
        out[i] = high > low ? (out[i] - low) / (high - low) * 0.999 : 0.5;
    return n;
}

void tt_spark_draw(const tt_spark *s, int columns, bool has_utf8, tt_str *out)
{
    static const char *const block[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const ascii[] = {"_", "_", ".", ".", "-", "-", "^", "^"};
    double height[MAX_COLUMNS];
    if (columns > MAX_COLUMNS)
        columns = MAX_COLUMNS;
    const int n = heights(s, columns, height);
    for (int i = 0; i < columns; i++)
        tt_str_add(out, i >= n
                            ? " "
                            : (has_utf8 ? block : ascii)[(int)(8 * height[i])]);
}
