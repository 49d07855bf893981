// grad - reverse-mode differentiation as a transformation of the graph.
//
//   before   w -> fetch -> f(x, w) -> ... -> loss
//   after    ... and dloss -> ... -> grad_x f, grad_w f -> offer(w) = gradient of w
//
// Gradients of activations and of weights are separate nodes with separate phases.
// The seed is 1: the loss is a sum, and the division by the global count
// happens once, in the update.

#ifndef TT_GRAPH_GRAD_H
#define TT_GRAPH_GRAD_H

#include "graph/build.h"

// Appends the backward pass of `loss` (a scalar) to b's graph. Afterwards
// value.grad of every param that the loss depends on is set.
// `is_frozen` (may be NULL) says which params get no gradient.
tt_status tt_grad(tt_builder *b, tt_val loss,
                  bool (*is_frozen)(const char *name, void *user), void *user);

// What is differentiated: the gradients of `of` start as `seed`.
typedef struct tt_grad_of {
    const tt_val *of, *seed;
    int n_of;
} tt_grad_of;

// Gradients with respect to any values (for laws and tests).
tt_status tt_grad_values(tt_builder *b, const tt_grad_of *from,
                         const tt_val *wrt, int n_wrt, tt_val *grad_out);

#endif
