#include "exchange/privacy.h"

#include <math.h>

enum { FIRST_ORDER = 2, LAST_ORDER = 256 };

static double log_add(double a, double b)
{
    const double high = a > b ? a : b, low = a > b ? b : a;
    return isinf(low) ? high : high + log1p(exp(low - high));
}

// The Renyi divergence of one round.
static double divergence(double q, double sigma, int order)
{
    double binomial = 0, sum = -HUGE_VAL;
    if (q >= 1)
        return order / (2 * sigma * sigma);
    for (int k = 0; k <= order; k++) {
        const double term = binomial + (order - k) * log1p(-q) + k * log(q) +
                            k * (k - 1.0) / (2 * sigma * sigma);
        sum = log_add(sum, term);
        binomial += log((order - k) / (k + 1.0));
    }
    return sum / (order - 1);
}

double tt_privacy_epsilon(double q, double sigma, int64_t rounds, double delta)
{
    double best = HUGE_VAL;
    if (rounds == 0 || q <= 0)
        return 0;
    for (int order = FIRST_ORDER; sigma > 0 && order <= LAST_ORDER; order++) {
        const double epsilon = (double)rounds * divergence(q, sigma, order) -
                               log(delta) / (order - 1);
        best = epsilon < best ? epsilon : best;
    }
    return best;
}
