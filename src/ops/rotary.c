// rotary - turns pairs (i, i + head/2) of each head by an angle that grows with
// the position: rotary position embedding in its rotate-half form.
//
//   angle = (position + s) * theta^(-2 i / head)
//   the gradient turns back
//
//   flops   3 per element: two products and a sum (the angles are a table)
//   source  Su et al. 2021 (RoFormer)

#include "ops/cost.h"
#include "ops/embed.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/rows.h"
#include "ops/shard_common.h"

enum { X, POSITION };

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "rotary", 1, 2));
    TT_TRY(tt_infer_float(io, "rotary", X));
    const tt_shape *x = &io->in[X].shape;
    if (x->ndim < 3)
        return tt_fail(TT_ERR_ARG, "rotary: needs [.., seq, heads, head]");
    if (tt__last(x) % 2 != 0)
        return tt_fail(TT_ERR_ARG,
                       "rotary: a head of %lld entries has no pairs",
                       (long long)tt__last(x));
    if (tt_io_has(io, POSITION))
        TT_TRY(tt__want_dtype(io, POSITION, TT_I64, "rotary"));
    io->n_out = 1;
    io->out[0].dtype = io->in[X].dtype;
    io->out[0].shape = *x;
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    tt_rotary_params p = *(const tt_rotary_params *)node->params;
    p.inverse = !p.inverse;
    const tt_val position =
        node->n_in > POSITION ? node->in[POSITION] : TT_NONE;
    if (need[X])
        din[X] = tt_call(b, &tt_op_rotary, &p, (tt_val[]){dout[0], position}, 2,
                         NULL);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_lead(io, axis_size, &(tt__split){X, "=.", "=", NULL}, sigs);
    tt_shard_partial(io, 1U << X, TT_SUM, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_elementwise(io, 0, 3, cost_out);
}

tt_val tt_rotary(tt_builder *b, tt_val x, tt_val position, double theta)
{
    return tt_call(b, &tt_op_rotary, &(tt_rotary_params){.theta = theta},
                   (tt_val[]){x, position}, tt_is(position) ? 2 : 1, NULL);
}

static const tt_opt options[] = {
    {.name = "theta",
     .fallback = "10000",
     .doc = "base of the wavelengths",
     .type = TT_OPT_F64,
     .offset = offsetof(tt_rotary_params, theta),
     .min = 1,
     .max = 1e12},
    {.name = "inverse",
     .fallback = "false",
     .doc = "turn back",
     .type = TT_OPT_BOOL,
     .offset = offsetof(tt_rotary_params, inverse)},
    {0},
};

static const tt_sample samples[] = {
    {"", {"f batch:2 seq:5 heads:3 head:4"}, 360},
    {"theta=10", {"f part:2.seq:3 heads:1 head:2"}, 36},
    {"theta=100 inverse=true", {"f seq:3 heads:2 head:6", "I=4"}, 108},
    {0},
};

const tt_op_def tt_op_rotary = {
    .name = "rotary",
    .doc = "Rotary position embedding (rotate-half form).",
    .options = options,
    .params_bytes = sizeof(tt_rotary_params),
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};
