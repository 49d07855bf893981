// mix - see mix.h.

#include "policy/mix.h"

#include "base/alloc.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static double length(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

static void remove_mean(double *x, int64_t n)
{
    double mean = 0;
    for (int64_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        x[i] -= mean;
}

// y = W x, and y = W' x.
static void times(const double *w, const double *x, double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = 0;
        for (int64_t j = 0; j < n; j++)
            y[i] += w[i * n + j] * x[j];
    }
}

static void times_turned(const double *w, const double *x, double *y, int64_t n)
{
    memset(y, 0, (size_t)n * sizeof *y);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            y[j] += w[i * n + j] * x[i];
}

double tt_policy_mix_rate(const double *w, int64_t n)
{
    enum { ROUNDS = 2000 };
    double *x = tt_alloc(2 * n * (int64_t)sizeof *x);
    double rate = 0, before = -1;
    if (x == NULL)
        return -1;
    double *y = x + n;
    // no wave of a regular graph has an angle of 90 degrees to this
    for (int64_t i = 0; i < n; i++)
        x[i] = sin(1.7 * (double)i * (double)i + 0.3) + (i == 0);
    for (int k = 0; k < ROUNDS && fabs(rate - before) > 1e-14; k++) {
        before = rate;
        remove_mean(x, n);
        const double was = length(x, n);
        if (was < 1e-150)
            break;
        for (int64_t i = 0; i < n; i++)
            x[i] /= was;
        times(w, x, y, n);
        rate = length(y, n);
        times_turned(w, y, x, n);
    }
    tt_free(x);
    return rate;
}

// Follows what replica 0 says (or, turned, what it hears) from replica to replica; the
// first that it does not come to, or -1.
static int64_t follow(const double *w, int64_t n, bool is_turned,
                      int64_t *queue, bool *is_reached)
{
    int64_t first = 0, end = 1;
    for (int64_t i = 0; i < n; i++)
        is_reached[i] = false;
    queue[0] = 0;
    is_reached[0] = true;
    for (; first < end; first++)
        for (int64_t i = 0; i < n; i++) {
            const int64_t at =
                is_turned ? queue[first] * n + i : i * n + queue[first];
            if (w[at] == 0 || is_reached[i])
                continue;
            is_reached[i] = true;
            queue[end++] = i;
        }
    for (int64_t i = 0; i < n; i++)
        if (!is_reached[i])
            return i;
    return -1;
}

tt_status tt_policy_mix_check(const double *w, int64_t n)
{
    int64_t *queue = tt_alloc(n * (int64_t)sizeof *queue);
    bool *is_reached = tt_alloc(n * (int64_t)sizeof *is_reached);
    tt_status status = TT_OK;
    if (queue == NULL || is_reached == NULL) {
        status = tt_fail(TT_ERR_NOMEM, "no memory for a graph of replicas");
    } else {
        const int64_t deaf = follow(w, n, false, queue, is_reached);
        const int64_t mute = follow(w, n, true, queue, is_reached);
        if (deaf >= 0 || mute >= 0)
            status = tt_fail(
                TT_ERR_ARG,
                "exchange.graph: replica %lld never hears of replica %lld, "
                "however long it takes; exchange.graph=ring would do",
                (long long)(deaf >= 0 ? deaf : 0),
                (long long)(deaf >= 0 ? 0 : mute));
    }
    tt_free(is_reached);
    tt_free(queue);
    return status;
}
