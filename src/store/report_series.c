// report_series - numbers over steps; scales and their ticks.

#include "store/report_parts.h"

#include <math.h>
#include <stddef.h>

void tt__series_smooth(const tt_metric_series *s, int64_t window, double *out)
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
