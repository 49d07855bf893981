// blocks - a rank that does the work of several (exact mode) holds several blocks of a
// split value. These operators take them apart and put them together:
//
//   block(x)            one block of x, the one that the result's placement names
//   unblock(b0, b1...)  all blocks of the rank as one value
//
//   rank 0's part of x   | block 0 | block 1 |      block(x) -> a view of either
//
// Inputs and outputs have the same global type and differ in placement alone (place.h:
// block `part` of `parts`). Both are views where strides can express them, so that
// usually nothing is copied.
//
//   flops   none

#include "ops/blocks.h"

#include "graph/site.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shape/view.h"

static tt_status infer_block(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "block", 1, 1));
    tt_infer_add(io, io->in[0].dtype, &io->in[0].shape);
    return TT_OK;
}

static tt_status infer_unblock(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "unblock", 1, INT32_MAX));
    for (int i = 1; i < io->n_in; i++)
        if (io->in[i].dtype != io->in[0].dtype ||
            !tt_shape_equal(&io->in[i].shape, &io->in[0].shape))
            return tt_infer_fail_shapes("unblock", "blocks differ",
                                        &io->in[0].shape, &io->in[i].shape);
    tt_infer_add(io, io->in[0].dtype, &io->in[0].shape);
    return TT_OK;
}

// Both sides know their origin in the global value; the difference is the offset.
bool tt_block_inside(const tt_operand *whole, const tt_local *part,
                     int64_t *stride_out, int64_t *offset_out)
{
    int64_t stride[TT_MAX_FACTORS] = {0};
    tt_view_split_dims(whole, stride);
    *offset_out = 0;
    for (int f = 0; f < part->shape.n_factors; f++)
        *offset_out += (part->origin[f] - whole->local.origin[f]) * stride[f];
    return tt_view_merge_dims(&part->shape, stride, stride_out);
}

static bool view_block(const tt_site *site, int i, int64_t *stride_out,
                       int64_t *offset_out)
{
    return tt_block_inside(&site->in[0], &site->out[i].local, stride_out,
                           offset_out);
}

static bool view_unblock(const tt_site *site, int i, int64_t *stride_out,
                         int64_t *offset_out)
{
    return tt_block_inside(&site->out[0], &site->in[i].local, stride_out,
                           offset_out);
}

tt_val tt_block_make(tt_builder *b, tt_val x)
{
    return tt_call(b, &tt_op_block, NULL, &x, 1, NULL);
}

tt_val tt_unblock(tt_builder *b, const tt_val *x, int n)
{
    return tt_call(b, &tt_op_unblock, NULL, x, n, NULL);
}

static const tt_sample samples[] = {
    {"", {"f a:3 b:5"}, 0},
    {"", {"f a:2.c:3 b:4"}, 0},
    {0},
};

const tt_op_def tt_op_block = {
    .name = "block",
    .doc = "One of the blocks that a rank holds of a value.",
    .flags = TT_OP_VIEW,
    .infer = infer_block,
    .cost = tt_cost_moved,
    .view = view_block,
    .samples = samples,
};

const tt_op_def tt_op_unblock = {
    .name = "unblock",
    .doc = "All blocks that a rank holds of a value, as one.",
    .flags = TT_OP_CONCAT,
    .infer = infer_unblock,
    .cost = tt_cost_moved,
    .view = view_unblock,
    .samples = samples,
};
