// offload - a copy in the memory of the host, which is larger than a device's; reload
// brings it back.
//
// The plan knows that the result of offload lies in the host's memory. Both operators
// start a copy that overlaps with the steps after it. A step waits for the copy only
// when it reads the result, or overwrites the memory that the copy reads.
//
//   flops   none

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, io->op->name, 1, 1));
    tt_infer_add(io, io->in[0].dtype, &io->in[0].shape);
    return TT_OK;
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    tt_shard_partial(io, 1, TT_SUM, sigs);
    tt_shard_partial(io, 1, TT_MAX, sigs);
}

static const tt_sample samples[] = {
    {"", {"f a:3 b:5"}, 0},
    {"", {"f"}, 0},
    {"", {"i<9 a:2.c:3 b:7"}, 0},
    {0},
};

const tt_op_def tt_op_offload = {
    .name = "offload",
    .doc = "A copy in the memory of the host.",
    .flags = TT_OP_ELEMENTWISE,
    .infer = infer,
    .shard = shard,
    .cost = tt_cost_moved,
    .samples = samples,
};

const tt_op_def tt_op_reload = {
    .name = "reload",
    .doc = "A copy of what lies in the memory of the host.",
    .flags = TT_OP_ELEMENTWISE,
    .infer = infer,
    .shard = shard,
    .cost = tt_cost_moved,
    .samples = samples,
};
