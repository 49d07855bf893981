// average - the options of averaging, as a struct.

#ifndef TT_POLICY_AVERAGE_H
#define TT_POLICY_AVERAGE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum tt_outer {
    TT_OUTER_NONE,
    TT_OUTER_MOMENTUM,
    TT_OUTER_NESTEROV,
} tt_outer;

typedef struct tt_average_params {
    int64_t every; // steps between two averages; 0: never, but the model is one
    int64_t dense; // first steps after each of which there is one
    int64_t parts; // of the weights, averaged in turns
    int64_t delay; // steps from an average to when replicas have it
    double alpha;  // how far they go to it
    bool adaptive; // steps between two averages become fewer as the loss falls
    int optim;     // tt_outer
    double optim_lr, optim_momentum;
} tt_average_params;

#endif
