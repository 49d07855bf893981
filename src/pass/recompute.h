// recompute - what the two files of the pass share; nobody else includes it.

#ifndef TT_PASS_RECOMPUTE_H
#define TT_PASS_RECOMPUTE_H

#include "graph/graph.h"
#include "ops/ops.h"

typedef enum tt__recompute_mode {
    TT__RECOMPUTE_NONE,
    TT__RECOMPUTE_SELECTIVE,
    TT__RECOMPUTE_FULL,
} tt__recompute_mode;

// Sets is_dropped[v] for every value of the forward pass that shall not be kept
// for the backward pass; room for all values, zeroed.
tt_status tt__recompute_pick(const tt_graph *g, tt__recompute_mode mode,
                             bool *is_dropped);

// Whether a value dies with the forward pass unless gradients read it.
static inline bool tt__is_backward(const tt_node *node)
{
    return node->phase == TT_BACKWARD || node->phase == TT_WEIGHT_GRAD;
}

static inline bool tt__reads(const tt_node *node, int i)
{
    return tt_is(node->in[i]) && (i >= 32 || !(node->op->shape_only >> i & 1));
}

// Whether a node gathers a weight that lies in parts. The whole weight is never
// kept for the backward pass: it is gathered again there.
bool tt__is_weight_gather(const tt_graph *g, const tt_node *node);

// The activation of a matmul whose value before the activation is kept: the
// result is that of the activation alone, and the product need not be repeated.
bool tt__is_activation(const tt_node *node, const bool *is_dropped);

#endif
