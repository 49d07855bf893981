// optimizer - one fused pass over the elements of a parameter: gradient, state
// and weights are read once and written once. PyTorch's formulas (torch.optim).
//
// The gradient is multiplied by grad_scale (loss scale, clipping) where it is
// read. Bound by memory.

#ifndef TT_BACKEND_CPU_SIMD_OPTIMIZER_H
#define TT_BACKEND_CPU_SIMD_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_simd_optimizer_args {
    int64_t n;
    float *w;         // weights, updated
    const float *g;   // gradient
    float grad_scale; // 1 for none
    uint16_t *w_bf16; // a copy of the new weights, or null
    float *m, *v;     // state, updated; what they hold is said below
    int64_t step;     // 1 for the first update
    // Double, because 1 - 0.999 in fp32 is already wrong in the fifth digit.
    double lr, weight_decay, epsilon;
    double beta1, beta2; // Adam's
    double momentum, dampening;
    bool is_nesterov;
    double alpha;    // RMSProp: decay of the mean square; ema's decay
    double lr_decay; // AdaGrad
    double trust;    // LARS, LAMB: factor on the step of this parameter
    float *update;   // LAMB: the direction; lamb_update may be given g
} tt_simd_optimizer_args;

typedef void tt_simd_optimizer_fn(const tt_simd_optimizer_args *args);

// L2: g += weight_decay * w comes first in all but adamw and lamb.
typedef struct tt_simd_optimizer {
    tt_simd_optimizer_fn *sgd;     // m: momentum; null if momentum is 0
    tt_simd_optimizer_fn *adagrad; // v: sum of squares
    tt_simd_optimizer_fn *rmsprop; // v: mean square; m: momentum, or null
    tt_simd_optimizer_fn *adam;    // m, v: first and second moment
    tt_simd_optimizer_fn *adamw;   // as adam; w *= 1 - lr * weight_decay
    tt_simd_optimizer_fn *yogi; // as adam; v -= (1 - beta2) sign(v - g g) g g
    // m = momentum m + lr trust (g + weight_decay w); w -= m (You et al. 2017).
    // The caller finds trust from the norms of w and g.
    tt_simd_optimizer_fn *lars;
    // update = mhat / (sqrt(vhat) + epsilon) + weight_decay w; w unchanged. The
    // caller finds trust from the norms of w and update (You et al. 2020).
    tt_simd_optimizer_fn *lamb_update;
    tt_simd_optimizer_fn *lamb_apply; // w -= lr trust update
    tt_simd_optimizer_fn *ema;        // v += (1 - alpha) (w - v); w unchanged
} tt_simd_optimizer;

#endif
