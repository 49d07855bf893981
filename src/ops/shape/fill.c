// fill - a constant in the type of another value, of which only the shape is
// read.
//
//   flops   none

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "ops/shard_common.h"

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "fill", 1, 1));
    tt_infer_add(io, io->in[0].dtype, &io->in[0].shape);
    return TT_OK;
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    // What the input holds does not matter, so terms of a sum do as well.
    tt_sig *sig = tt_sigs_add(sigs);
    if (sig != NULL)
        sig->in[0] = tt_place_partial(TT_SUM);
}

tt_val tt_fill(tt_builder *b, tt_val like, double value)
{
    return tt_call(b, &tt_op_fill, &(tt_fill_params){.value = value}, &like, 1,
                   NULL);
}

static const tt_opt options[] = {
    {"value", "1", "what every element is", TT_OPT_F64,
     .offset = offsetof(tt_fill_params, value)},
    {0},
};

static const tt_sample samples[] = {
    {"", {"f a:3 b:5"}, 0},
    {"value=-2.5", {"f"}, 0},
    {"value=3", {"i<7 a:4"}, 0},
    {0},
};

const tt_op_def tt_op_fill = {
    .name = "fill",
    .doc = "A constant in the shape of another value.",
    .options = options,
    .params_bytes = sizeof(tt_fill_params),
    .shape_only = 1,
    .infer = infer,
    .shard = shard,
    .cost = tt_cost_moved,
    .samples = samples,
};
