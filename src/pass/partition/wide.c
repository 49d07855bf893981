// wide - terms of a sum over ranks that are not rounded before they are added.
//
// Where a contraction is split, every rank has a term of its result. In a 16-bit
// precision each term would be rounded, and their sum again: twice the variance of
// what one rank has. Smooth functions tolerate that: gradients stay within 1.5 times one
// rank's distance from fp32. But where the forward pass has jumps (ReLU, maxima, the
// choice of experts), each additional rounding makes some values jump, and gradients
// with them. For such models the operator's terms stay in 32 bits, ranks add them, and
// the sum is rounded once, as on one rank.
//
//   needs    an operator with the option `wide`. Only in the forward pass: no value of
//            backward decides about a jump
//   sent     twice the bytes of these sums
//
// Whoever reads such a value gets the sum, never the terms.

#include "base/settings/opt.h"
#include "ops/comm/comm.h"
#include "ops/shape/move.h"
#include "pass/partition/cut.h"

#include <string.h>

bool tt__is_wide(const tt__cut *c, int32_t old, tt_val val)
{
    return c->b.graph->value[val.id].type.dtype !=
           c->old->value[old].type.dtype;
}

static bool is_short(const tt_node *node, const tt_graph *g)
{
    const tt_dtype dtype = g->value[node->out[0].id].type.dtype;
    return tt_dtype_is_float(dtype) && tt_dtype_bytes(dtype) == 2;
}

tt_status tt__widen(tt__cut *c, const tt_node *node, const tt_sig *sig,
                    tt_node *wide_out)
{
    const tt_op_def *op = node->op;
    *wide_out = *node;
    const tt_opt *option = c->params->wide && op->options != NULL
                               ? tt_opt_find(op->options, "wide")
                               : NULL;
    const bool has_terms =
        sig->expand != NULL ||
        (sig->out[0].kind == TT_PARTIAL && sig->out[0].reduce == TT_SUM);
    if (option == NULL || node->phase != TT_FORWARD || !has_terms ||
        !is_short(node, c->old))
        return TT_OK;
    char *params = tt_arena_alloc(c->b.graph->arena, op->params_bytes);
    if (params == NULL)
        return TT_ERR_NOMEM;
    memcpy(params, node->params, (size_t)op->params_bytes);
    *(bool *)(void *)(params + option->offset) = true;
    wide_out->params = params;
    return TT_OK;
}

tt_val tt__narrow(tt__cut *c, int32_t old, tt_val val)
{
    const tt_val rounded = tt_cast(&c->b, val, c->old->value[old].type.dtype);
    if (tt_is(rounded) && rounded.id != val.id)
        tt_place_like(&c->b, rounded, val, -1);
    return rounded;
}
