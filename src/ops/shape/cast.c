// cast - the same values in another dtype, rounded to nearest even.
//
//   flops   none: data movement

#include "graph/build.h"
#include "ops/cost.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "ops/shard_common.h"

static tt_status infer(tt_op_io *io)
{
    const tt_cast_params *p = io->params;
    if (io->n_in != 1)
        return tt_fail(TT_ERR_ARG, "cast: takes 1 input, not %d", io->n_in);
    io->n_out = 1;
    io->out[0].dtype = (tt_dtype)p->to;
    io->out[0].shape = io->in[0].shape;
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    if (need[0])
        din[0] = tt_cast(b, dout[0], tt_type_of(b, node->in[0])->dtype);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    // A narrowing cast of a partial value would round the terms before they are added.
    const tt_dtype from = io->in[0].dtype, to = io->out[0].dtype;
    if (tt_dtype_is_float(to) && tt_dtype_bytes(to) >= tt_dtype_bytes(from))
        tt_shard_partial(io, 1, TT_SUM, sigs);
}

tt_val tt_cast(tt_builder *b, tt_val x, tt_dtype to)
{
    if (!tt_is(x) || tt_type_of(b, x)->dtype == to)
        return x;
    return tt_call(b, &tt_op_cast, &(tt_cast_params){.to = (int)to}, &x, 1,
                   NULL);
}

static const tt_opt options[] = {
    // In the order of tt_dtype.
    {"to", "f32", "the new dtype", TT_OPT_CHOICE,
     .offset = offsetof(tt_cast_params, to),
     .choices = "f64|f32|bf16|f16|i64|i32|u8"},
    {0},
};

static const tt_sample samples[] = {
    {"to=f64", {"f a:3 b:5"}, 0},
    {"to=f32", {"f a:7"}, 0},
    {"to=bf16", {"f a:2 b:3.c:4"}, 0},
    {"to=i32", {"i<100 a:5"}, 0},
    {0},
};

const tt_op_def tt_op_cast = {
    .name = "cast",
    .doc = "The same values in another dtype.",
    .options = options,
    .params_bytes = sizeof(tt_cast_params),
    .flags = TT_OP_ELEMENTWISE,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = tt_cost_moved,
    .samples = samples,
};
