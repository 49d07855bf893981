// route - which experts a token goes to, and with what weight.
//
//   p = softmax(logits)          the `choices` largest p of each token are its gates,
//                                divided by their sum
//   balance = E * sum over e of share(e) * sum over tokens of p(e)
//
// share(e) is the part of a sample's tokens whose first choice is e; it counts as a
// constant (Shazeer et al. 2017; Fedus et al. 2022).
//
//   flops   4 per logit forward and backward, as softmax
//   shard   by sample; a sequence stays together

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/moe.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

enum { LOGITS, PLACE, DGATE, DBALANCE }; // of route_grad
enum { GATE, OUT_PLACE, BALANCE };       // outputs of route

static tt_status check_logits(const tt_op_io *io, const char *op)
{
    const tt_route_params *p = io->params;
    TT_TRY(tt_infer_float(io, op, LOGITS));
    const tt_shape *shape = &io->in[LOGITS].shape;
    if (shape->ndim < 2)
        return tt_fail(TT_ERR_ARG, "%s: logits are [..., seq, experts]", op);
    if (p->choices < 1 || p->choices > tt__last(shape) || p->slots < 1)
        return tt_fail(TT_ERR_ARG,
                       "%s: %lld choices of %lld experts with %lld slots", op,
                       (long long)p->choices, (long long)tt__last(shape),
                       (long long)p->slots);
    return TT_OK;
}

static tt_status infer(tt_op_io *io)
{
    const tt_route_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "route", 1, 1));
    TT_TRY(check_logits(io, "route"));
    tt_shape chosen = tt__lead_of(&io->in[LOGITS].shape);
    const tt_shape scalar = {0};
    TT_TRY(tt_shape_push(&chosen, "choice", p->choices));
    const tt_dtype master = tt_dtype_master(io->in[LOGITS].dtype);
    tt_infer_add(io, master, &chosen);
    tt_infer_add(io, TT_I32, &chosen);
    tt_infer_add(io, master, &scalar);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_val in[] = {node->in[LOGITS], node->out[OUT_PLACE], dout[GATE],
                         dout[BALANCE]};
    if (need[0])
        din[0] = tt_call(b, &tt_op_route_grad, node->params, in, 4, NULL);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    for (int d = 0; d < io->in[LOGITS].shape.ndim - 2; d++)
        tt__shard_dim(io, axis_size, d, &(tt__split){0, "=", "==+", NULL},
                      sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_reduction(io, 0, 4 * tt_cost_count(&io->in[LOGITS]),
                      (double)tt__last(&io->in[LOGITS].shape), cost_out);
}

static tt_status infer_grad(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "route_grad", 2, 4));
    TT_TRY(check_logits(io, "route_grad"));
    TT_TRY(tt__want_dtype(io, PLACE, TT_I32, "route_grad"));
    if (tt_io_has(io, DGATE))
        TT_TRY(tt_infer_same_dims(io, "route_grad", PLACE, DGATE));
    if (tt_io_has(io, DBALANCE))
        TT_TRY(tt_infer_float_scalar(io, "route_grad", DBALANCE));
    tt_infer_add(io, io->in[LOGITS].dtype, &io->in[LOGITS].shape);
    return TT_OK;
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    for (int d = 0; d < io->in[LOGITS].shape.ndim - 2; d++)
        tt__shard_dim(io, axis_size, d, &(tt__split){0, "===.", "=", NULL},
                      sigs);
}

tt_routed tt_route(tt_builder *b, tt_val logits, int64_t choices, int64_t slots)
{
    const tt_route_params params = {choices, slots};
    tt_val out[TT_MAX_OUT] = {TT_NONE, TT_NONE, TT_NONE};
    (void)tt_call(b, &tt_op_route, &params, &logits, 1, out);
    return (tt_routed){out[GATE], out[OUT_PLACE], out[BALANCE]};
}

static const tt_opt options[] = {
    {"choices", "2", "experts per token", TT_OPT_I64,
     offsetof(tt_route_params, choices), NULL, 1, 1024},
    {"slots", "1", "tokens per expert and sample", TT_OPT_I64,
     offsetof(tt_route_params, slots), NULL, 1, 1 << 24},
    {0},
};

static const tt_sample samples[] = {
    {"choices=2 slots=3", {"f! batch:3 seq:5 experts:4"}, 240},
    {"choices=1 slots=1", {"f! batch:2 seq:3 experts:3"}, 72},
    {"choices=2 slots=4", {"f! seq:4 experts:2"}, 32},
    {0},
};

static const tt_sample samples_grad[] = {
    {"choices=2 slots=3",
     {"f! batch:3 seq:5 experts:4", "i<12 batch:3 seq:5 choice:2",
      "m batch:3 seq:5 choice:2", "m"},
     240},
    {"choices=1 slots=2",
     {"f! batch:2 seq:3 experts:3", "i<6 batch:2 seq:3 choice:1", "-", "m"},
     72},
    {0},
};

const tt_op_def tt_op_route = {
    .name = "route",
    .doc = "The experts that each token goes to.",
    .options = options,
    .params_bytes = sizeof(tt_route_params),
    .flags = TT_OP_JUMPS,
    .no_grad = 1U << OUT_PLACE,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_route_grad = {
    .name = "route_grad",
    .doc = "Gradient of route.",
    .options = options,
    .params_bytes = sizeof(tt_route_params),
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost,
    .samples = samples_grad,
};
