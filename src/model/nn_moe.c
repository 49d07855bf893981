// nn_moe - a layer of experts in place of an MLP (mixture of experts).
//
// A router scores all experts for each token, and the token goes to the best few
// (`choices`). Shapes must be fixed before anything runs, so each expert has a fixed
// number of slots per sample; a token that finds its expert full is left out there.
//
//   x [batch, seq, embed]
//     -> route      which slot of which expert each token gets, and with which weight
//     -> dispatch   [experts, batch, slot, embed]
//     -> two or three matrices per expert, as one batched product
//     -> combine    back to [batch, seq, embed], weighted sums
//
// Experts are a dimension like any other, so a layout that splits it is expert
// parallelism. The balance loss keeps the router from sending all tokens to a few
// experts.

#include "model/nn.h"
#include "ops/arith.h"
#include "ops/nn/moe.h"
#include "ops/ops.h"
#include "ops/shape/move.h"

// An equal share of the tokens, times the capacity factor, rounded up.
static int64_t slots_of(const tt_moe *m, int64_t tokens)
{
    if (m->capacity == 0)
        return tokens;
    const double each = (double)(m->choices * tokens) / (double)m->experts;
    const int64_t slots = (int64_t)(each * m->capacity + 0.999999);
    return slots < 1 ? 1 : slots < tokens ? slots : tokens;
}

// [experts, batch, slot, embed] through two matrices per expert.
static tt_val experts(tt_builder *b, const tt_moe *m, tt_val z)
{
    const tt_val up = tt_param(
        b, "experts.c_fc.weight", m->init, "experts:%lld embed:%lld ff:%lld",
        (long long)m->experts, (long long)m->width, (long long)m->ff);
    const tt_val down =
        tt_param(b, "experts.c_proj.weight", m->out_init,
                 "experts:%lld ff:%lld embed:%lld", (long long)m->experts,
                 (long long)m->ff, (long long)m->width);
    const tt_val rows = tt_callf(b, &tt_op_reshape, &z, 1, "dims=1,2,1");
    const tt_val h = tt_callf(b, &tt_op_matmul, (tt_val[]){rows, up, TT_NONE},
                              3, "activation=gelu_tanh");
    const tt_val y =
        tt_call(b, &tt_op_matmul, NULL, (tt_val[]){h, down, TT_NONE}, 3, NULL);
    return tt_callf(b, &tt_op_reshape, &y, 1, "dims=1,1,1,1");
}

typedef struct matrix {
    const char *name;
    bool is_down;
} matrix;

static tt_val times(tt_builder *b, const tt_moe *m, tt_val x, matrix of)
{
    const long long width = (long long)m->width, ff = (long long)m->ff;
    const tt_val w = tt_param(b, of.name, of.is_down ? m->out_init : m->init,
                              of.is_down ? "experts:%lld embed:%lld ff:%lld"
                                         : "experts:%lld ff:%lld embed:%lld",
                              (long long)m->experts, of.is_down ? width : ff,
                              of.is_down ? ff : width);
    return tt_callf(b, &tt_op_matmul, (tt_val[]){x, w, TT_NONE}, 3,
                    "transpose_b=true");
}

// The same through three: down(silu(gate) * up).
static tt_val gated_experts(tt_builder *b, const tt_moe *m, tt_val z)
{
    const tt_val rows = tt_callf(b, &tt_op_reshape, &z, 1, "dims=1,2,1");
    tt_val in[2];
    in[0] = times(b, m, rows, (matrix){"experts.w1.weight", false});
    in[1] = times(b, m, rows, (matrix){"experts.w3.weight", false});
    const tt_val h = tt_call(b, &tt_op_swiglu, NULL, in, 2, NULL);
    const tt_val y = times(b, m, h, (matrix){"experts.w2.weight", true});
    return tt_callf(b, &tt_op_reshape, &y, 1, "dims=1,1,1,1");
}

// Experts may be split; a token needs the scores of all of them.
static tt_val scores(tt_builder *b, const tt_moe *m, tt_val x)
{
    const long long width = (long long)m->width, n = (long long)m->experts;
    const tt_val w = m->is_gated ? tt_param(b, "gate.weight", m->init,
                                            "scores:%lld embed:%lld", n, width)
                                 : tt_param(b, "router.weight", m->init,
                                            "embed:%lld scores:%lld", width, n);
    return tt_callf(b, &tt_op_matmul, (tt_val[]){x, w, TT_NONE}, 3,
                    "transpose_b=%s", m->is_gated ? "true" : "false");
}

tt_val tt_nn_moe(tt_builder *b, tt_val x, const tt_moe *m, tt_val *balance_out)
{
    const int scope = tt_scope_push(b, "%s", m->name);
    const int64_t slots = slots_of(m, tt_dim_of(b, x, 1));
    const tt_dispatch_params params = {m->experts, slots};
    const tt_routed to = tt_route(b, scores(b, m, x), m->choices, slots);
    const tt_val z = tt_dispatch(b, x, to.place, TT_NONE, &params);
    const tt_val made = m->is_gated ? gated_experts(b, m, z) : experts(b, m, z);
    const tt_val y = tt_combine(b, made, to.place, to.gate);
    *balance_out = to.balance;
    tt_scope_pop(b, scope);
    return y;
}
