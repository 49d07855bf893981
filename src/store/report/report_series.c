// report_series - numbers over steps; scales and their ticks.

#include "base/alloc.h"
#include "store/report/report_parts.h"

#include <math.h>
#include <stddef.h>

// A mean with as many values on either side, fewer near the ends. So the first and
// the last value are their own means, and a slope is not shifted. Each sum is
// computed anew: a running sum would not be exact after a very large value has left
// it.
double tt__series_mean(const tt_metric_series *s, int64_t window, int64_t at)
{
    int64_t half = window / 2;
    half = half < at ? half : at;
    half = half < s->n - 1 - at ? half : s->n - 1 - at;
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = at - half; i <= at + half; i++)
        if (isfinite(s->value[i])) {
            sum += s->value[i];
            count++;
        }
    return count > 0 ? sum / (double)count : (double)NAN;
}

double tt__curve_x(const tt_curve *c, tt_x x, int64_t at)
{
    const tt_metric_series *s = c->series;
    switch (x) {
    case TT_X_TIME:
        return (double)s->seconds[at];
    case TT_X_UNITS:
        return c->units > 0 ? (double)s->step[at] * c->units : (double)NAN;
    case TT_X_BYTES:
        return c->sent != NULL && c->sent->series != NULL
                   ? tt__sent_until(c->sent, s->step[at])
                   : (double)NAN;
    default:
        return (double)s->step[at];
    }
}

// ---- bytes ---------------------------------------------------------------

// A point says the mean of the steps since the one before.
tt_status tt__sent_make(const tt_metrics *metrics, tt_sent *out)
{
    *out = (tt_sent){.series = tt_metrics_find(metrics, "comm/bytes")};
    const tt_metric_series *s = out->series;
    if (s == NULL || s->n == 0) {
        out->series = NULL;
        return TT_OK;
    }
    out->sum = tt_alloc(s->n * (int64_t)sizeof *out->sum);
    if (out->sum == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a report");
    double sum = 0;
    for (int64_t i = 0; i < s->n; i++) {
        const int64_t steps = s->step[i] - (i > 0 ? s->step[i - 1] : 0);
        if (isfinite(s->value[i]) && steps > 0)
            sum += s->value[i] * (double)steps;
        out->sum[i] = sum;
    }
    return TT_OK;
}

void tt__sent_free(tt_sent *sent)
{
    tt_free(sent->sum);
    *sent = (tt_sent){0};
}

double tt__sent_until(const tt_sent *sent, int64_t step)
{
    const tt_metric_series *s = sent->series;
    int64_t low = 0, high = s->n; // the first point after the step
    while (low < high) {
        const int64_t k = (low + high) / 2;
        if (s->step[k] > step)
            high = k;
        else
            low = k + 1;
    }
    const double rate = s->value[low < s->n ? low : s->n - 1];
    const int64_t from = low > 0 ? s->step[low - 1] : 0;
    return (low > 0 ? sent->sum[low - 1] : 0) + (double)(step - from) * rate;
}

double tt__scale_place(const tt_scale *scale, double value)
{
    const double v = scale->is_log ? log10(value) : value;
    return (v - scale->low) / (scale->high - scale->low);
}

// Ticks of a logarithmic scale, from few to many: powers of ten; times 1, 2, 5;
// more.
static const double steps_of[3][8] = {{1}, {1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 7}};

static int log_ticks(const tt_scale *scale, int kind, double *tick)
{
    const double *step = steps_of[kind];
    int n = 0;
    for (int p = (int)floor(scale->low); p <= (int)ceil(scale->high); p++)
        for (int k = 0; step[k] > 0; k++) {
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
    int n = log_ticks(scale, 2, tick);
    for (int kind = 1; n > wanted + 2 && kind >= 0; kind--)
        n = log_ticks(scale, kind, tick);
    if (n < 3)
        n = linear_ticks(pow(10, scale->low), pow(10, scale->high), wanted,
                         tick);
    return n;
}
