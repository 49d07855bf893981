#include "cli/spark.h"

#include <math.h>

static void merge_pairs(tt_spark *s)
{
    for (int i = 0; i < TT_SPARK_MAX / 2; i++)
        s->mean[i] = (s->mean[2 * i] + s->mean[2 * i + 1]) / 2;
    s->n = TT_SPARK_MAX / 2;
    s->per_mean *= 2;
}

void tt_spark_add(tt_spark *s, double value)
{
    if (!isfinite(value))
        return;
    if (s->per_mean == 0)
        s->per_mean = 1;
    s->sum += value;
    if (++s->n_sum < s->per_mean)
        return;
    s->mean[s->n++] = s->sum / (double)s->n_sum;
    s->sum = 0;
    s->n_sum = 0;
    if (s->n == TT_SPARK_MAX)
        merge_pairs(s);
}

// The mean of the part of the series that falls on slot `i` of `n`.
static double slot_value(const tt_spark *s, int i, int n)
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

enum { MAX_SLOTS = 2 * 64 };

// The curve as heights below 1; how many slots have one.
static int heights(const tt_spark *s, int slots, double *out)
{
    const int n = s->n < slots ? s->n : slots;
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < n; i++) {
        out[i] = slot_value(s, i, n);
        low = fmin(low, out[i]);
        high = fmax(high, out[i]);
    }
    for (int i = 0; i < n; i++)
        out[i] = high > low ? (out[i] - low) / (high - low) * 0.999 : 0.5;
    return n;
}

// A braille cell has two columns of four dots; U+2800 and a bit for each.
static void draw_braille(const double *height, int n, int columns, tt_str *out)
{
    static const unsigned dot[2][4] = {{0x40, 0x04, 0x02, 0x01},
                                       {0x80, 0x20, 0x10, 0x08}};
    for (int c = 0; c < columns; c++) {
        unsigned cell = 0;
        for (int side = 0; side < 2; side++) {
            const int i = 2 * c + side;
            if (i < n)
                cell |= dot[side][(int)(height[i] * 4)];
        }
        const char text[] = {(char)0xe2, (char)(0xa0 | (cell >> 6)),
                             (char)(0x80 | (cell & 0x3f)), '\0'};
        tt_str_add(out, cell == 0 ? " " : text);
    }
}

void tt_spark_draw(const tt_spark *s, int columns, bool has_utf8, tt_str *out)
{
    double height[MAX_SLOTS];
    if (columns > MAX_SLOTS / 2)
        columns = MAX_SLOTS / 2;
    const int n = heights(s, has_utf8 ? 2 * columns : columns, height);
    if (has_utf8) {
        draw_braille(height, n, columns, out);
        return;
    }
    for (int i = 0; i < columns; i++)
        tt_str_addf(out, "%c", i < n ? "_.-^"[(int)(height[i] * 4)] : ' ');
}
