// report_series - numbers over steps; scales and their ticks.

#include "base/alloc.h"
#include "store/report_parts.h"

#include <math.h>
#include <stddef.h>

enum { POINTS_MAX = 1 << 16 }; // that are kept, however long the run is

// Of every four values the lowest and the highest stay.
static void fold(tt_series *s)
{
    int64_t to = 0;
    for (int64_t i = 0; i + 3 < s->n; i += 4) {
        int64_t low = i, high = i;
        for (int64_t k = i + 1; k < i + 4; k++) {
            if (s->value[k] < s->value[low])
                low = k;
            if (!(s->value[k] <= s->value[high])) // a NaN stays
                high = k;
        }
        const int64_t first = low < high ? low : high;
        const int64_t second = low < high ? high : low;
        s->step[to] = s->step[first];
        s->value[to++] = s->value[first];
        s->step[to] = s->step[second];
        s->value[to++] = s->value[second];
    }
    s->n = to;
}

static tt_status grow(tt_series *s)
{
    const int64_t unit = (int64_t)sizeof(double);
    const int64_t more = s->capacity == 0 ? 256 : 2 * s->capacity;
    double *step = tt_realloc(s->step, s->capacity * unit, more * unit);
    if (step != NULL)
        s->step = step;
    double *value = tt_realloc(s->value, s->capacity * unit, more * unit);
    if (value != NULL)
        s->value = value;
    if (step == NULL || value == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the report's curves");
    s->capacity = more;
    return TT_OK;
}

tt_status tt__series_add(tt_series *s, double step, double value)
{
    if (s->n == POINTS_MAX)
        fold(s);
    if (s->n == s->capacity)
        TT_TRY(grow(s));
    s->step[s->n] = step;
    s->value[s->n++] = value;
    return TT_OK;
}

void tt__series_fini(tt_series *s)
{
    tt_free(s->step);
    tt_free(s->value);
    *s = (tt_series){0};
}

void tt__series_smooth(const tt_series *s, int64_t window, double *out)
{
    const int64_t half = window / 2;
    double sum = 0;
    int64_t count = 0, first = 0, last = 0; // the sum is over [first, last)
    for (int64_t i = 0; i < s->n; i++) {
        for (; last < s->n && last <= i + half; last++)
            if (isfinite(s->value[last])) {
                sum += s->value[last];
                count++;
            }
        for (; first < i - half; first++)
            if (isfinite(s->value[first])) {
                sum -= s->value[first];
                count--;
            }
        out[i] = count > 0 ? sum / (double)count : (double)NAN;
    }
}

double tt__scale_place(const tt_scale *scale, double value)
{
    const double v = scale->is_log ? log10(value) : value;
    return (v - scale->low) / (scale->high - scale->low);
}

// 1, 2 and 5 times powers of ten; all of them or the first `kinds`.
static int log_ticks(const tt_scale *scale, int kinds, double *tick)
{
    static const double step[] = {1, 2, 5};
    int n = 0;
    for (int p = (int)floor(scale->low); p <= (int)ceil(scale->high); p++)
        for (int k = 0; k < kinds; k++) {
            const double v = step[k] * pow(10, p);
            const double at = tt__scale_place(scale, v);
            if (at >= -1e-9 && at <= 1 + 1e-9 && n < TT_TICKS_MAX)
                tick[n++] = v;
        }
    return n;
}

static int linear_ticks(double low, double high, int wanted, double *tick)
{
    const double raw = (high - low) / wanted;
    const double power = pow(10, floor(log10(raw)));
    const double lead = raw / power;
    const double step = power * (lead <= 1   ? 1
                                 : lead <= 2 ? 2
                                 : lead <= 5 ? 5
                                             : 10);
    int n = 0;
    for (double k = ceil(low / step - 1e-9);
         k * step <= high + 1e-9 * step && n < TT_TICKS_MAX; k++)
        tick[n++] = k == 0 ? 0 : k * step; // never -0
    return n;
}

int tt__scale_ticks(const tt_scale *scale, int wanted,
                    double tick[TT_TICKS_MAX])
{
    if (!scale->is_log)
        return linear_ticks(scale->low, scale->high, wanted, tick);
    int n = log_ticks(scale, 3, tick);
    if (n > wanted + 2)
        n = log_ticks(scale, 1, tick);
    if (n < 3)
        n = linear_ticks(pow(10, scale->low), pow(10, scale->high), wanted,
                         tick);
    return n;
}
