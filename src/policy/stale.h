// stale - what is done about gradients of old weights: of workers that push to a server, and
// of stages whose pipe is not emptied before each update.
//
// The problem. A gradient was computed at weights that have been updated since. How many
// updates came in between is its age. Workers and stages differ in where ages come from
// (times of workers; the table of the pipe), not in what can be done. So both have the same
// settings and the same formulas, which are here.

#ifndef TT_POLICY_STALE_H
#define TT_POLICY_STALE_H

#include "base/settings/opt.h"

#include <stdint.h>

typedef enum tt_stale {
    TT_STALE_NONE,
    TT_STALE_LR,
    TT_STALE_COMPENSATE,
    TT_STALE_MOMENTUM,
    TT_STALE_REJECT,
    TT_STALE_PREDICT,
    TT_N_STALE,
} tt_stale;

// The options of policies that sum gradients.
typedef struct tt_sum_params {
    int staleness; // tt_stale
} tt_sum_params;

// TT_STALE_LR: the factor on the learning rate; of several gradients their mean.
static inline double tt_stale_rate(int64_t age)
{
    return age > 1 ? 1 / (double)age : 1;
}

// TT_STALE_MOMENTUM: old gradients act like momentum (Mitliagkas 2016), which is taken off,
// below 0 if need be.
static inline double tt_stale_momentum(double momentum, int64_t age)
{
    return momentum - (1 - 1 / (double)(age + 1));
}

// exchange.staleness, of policies whose gradients may be old; `at`: of an int.
#define TT_STALE_OPTION(at)                                                    \
    {                                                                          \
        "staleness", "none",                                                   \
            "what is done about gradients of old weights: a lower rate, "      \
            "compensation, less momentum, rejection, or weights that are "     \
            "predicted",                                                       \
            TT_OPT_CHOICE, at, "none|lr|compensate|momentum|reject|predict"    \
    }

#endif
