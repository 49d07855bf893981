// activation - functions of one number.

#include "backend/ref/activation.h"

#include <math.h>

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

double tt__activate(tt_activation activation, double x)
{
    switch (activation) {
    case TT_ACT_NONE:
        return x;
    case TT_ACT_RELU:
        return x <= 0 ? 0 : x; // NaN stays
    case TT_ACT_GELU_TANH:
        return 0.5 * x *
               (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case TT_ACT_GELU_ERF:
        return 0.5 * x * (1 + erf(x / sqrt(2.0)));
    case TT_ACT_SILU:
        return x * sigmoid(x);
    case TT_ACT_TANH:
        return tanh(x);
    case TT_ACT_SIGMOID:
        return sigmoid(x);
    }
    return x;
}
