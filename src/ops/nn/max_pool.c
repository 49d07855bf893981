// max_pool - the largest entry under each window, and where in the window it is: entry
// (a, b, c) of a kernel of extents (A, B, C) has number (a B + b) C + c. The gradient
// needs only that, not x. The position is relative to the window, so that it means the
// same on any rank. The first of equals wins; NaN wins over numbers.
//
// Padding never wins. flops: one comparison per entry of the window; the
// gradient adds once per output.

#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/nn/pool_common.h"
#include "ops/ops.h"

static const tt__pool_roles roles = {"x", "yy"};
static const tt__pool_roles roles_grad = {"yyx", "x"};

// A window that sees nothing but padding has no largest entry.
static tt_status check_windows(const tt_pool_params *p, const tt_shape *x,
                               const tt_shape *y)
{
    tt_local from, to;
    tt_local_whole(x, &from);
    tt_local_whole(y, &to);
    tt_slide slide[TT_MAX_SPATIAL];
    tt_pool_slides(p, &from, &to, slide);
    for (int d = 0; d < TT_MAX_SPATIAL; d++)
        for (int64_t o = 0; o < slide[d].out; o++) {
            bool sees = false;
            for (int64_t k = 0; !sees && k < slide[d].kernel; k++) {
                const int64_t at = tt_slide_at(&slide[d], o, k);
                sees = at >= 0 && at < slide[d].in;
            }
            if (!sees)
                return tt_fail(TT_ERR_ARG,
                               "max_pool: a window would see nothing but "
                               "padding; pad at most half of the kernel");
        }
    return TT_OK;
}

static tt_dtype where_dtype(const tt_pool_params *p, const tt_shape *x)
{
    return tt__pool_volume(p, x) <= 256 ? TT_U8 : TT_I32;
}

static tt_status infer(tt_op_io *io)
{
    const tt_pool_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, "max_pool", 1, 1));
    TT_TRY(tt_infer_float(io, "max_pool", 0));
    const tt_shape *x = &io->in[0].shape;
    tt_shape *y = &io->out[0].shape;
    TT_TRY(tt__pool_infer("max_pool", p, x, y));
    TT_TRY(check_windows(p, x, y));
    io->n_out = 2;
    io->out[0].dtype = io->in[0].dtype;
    io->out[1].dtype = where_dtype(p, x);
    io->out[1].shape = *y;
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_val in[] = {dout[0], node->out[1], node->in[0]};
    if (need[0])
        din[0] = tt_call(b, &tt_op_max_pool_grad, node->params, in, 3, NULL);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__pool_shard(io, &roles, axis_size, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt__pool_volume(io->params, &io->in[0].shape);
    tt_cost_reduction(io, 0, n * tt_cost_count(&io->out[0]), n, cost_out);
}

static tt_status infer_grad(tt_op_io *io)
{
    const char *op = "max_pool_grad";
    const tt_pool_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, op, 3, 3));
    TT_TRY(tt_infer_float(io, op, 0));
    tt_shape y;
    TT_TRY(tt__pool_infer(op, p, &io->in[2].shape, &y));
    TT_TRY(tt__expect_dims(io, op, 0, &y, "dy"));
    TT_TRY(tt__expect_dims(io, op, 1, &y, "where"));
    TT_TRY(
        tt__expect_dtype(io, op, 1, where_dtype(p, &io->in[2].shape), "where"));
    io->n_out = 1;
    io->out[0].dtype = io->in[0].dtype;
    io->out[0].shape = io->in[2].shape;
    return TT_OK;
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__pool_shard(io, &roles_grad, axis_size, sigs);
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double n = tt__pool_volume(io->params, &io->in[2].shape);
    tt_cost_reduction(io, 4, tt_cost_count(&io->in[0]), n, cost_out);
}

static const tt_opt options[] = {
    {"kernel", NULL, "extents of the window, per dimension or for all",
     TT_OPT_I64S, offsetof(tt_pool_params, slide.kernel), NULL, 1, 1e6},
    {"stride", NULL, "step from output to output; none: the kernel",
     TT_OPT_I64S, offsetof(tt_pool_params, slide.stride), NULL, 1, 1e6},
    {"pad", "0", "padding around the input", TT_OPT_I64S,
     offsetof(tt_pool_params, slide.pad), NULL, 0, 1e6},
    {"dilation", "1", "step from window entry to window entry", TT_OPT_I64S,
     offsetof(tt_pool_params, slide.dilation), NULL, 1, 1e6},
    {0},
};

static const tt_sample samples[] = {
    {"kernel=2", {"f! batch:2 channels:3 height:4 width:5"}, 96}, // 24 * 4
    {"kernel=3 stride=2 pad=1",
     {"f! batch:2 channels:2 height:7 width:5"},
     432}, // 48 * 9
    {"kernel=3,2 stride=1,2 dilation=2,1",
     {"f! batch:1 channels:2 height:7 width:4"},
     72}, // 12 * 6
    {"kernel=2 stride=1 pad=1",
     {"f! batch:2 channels:3 width:6"},
     84}, // 42 * 2
    {"kernel=2,1,2 stride=1",
     {"f! batch:2 channels:1 depth:3 height:2 width:3"},
     64},                                                          // 16 * 4
    {"kernel=2", {"f! batch:2 channels:8 height:4 width:5"}, 256}, // 64 * 4
    {"kernel=3 stride=2 pad=1",
     {"f! batch:2 channels:8 height:7 width:5"},
     1728}, // 192 * 9
    {0},
};

static const tt_sample samples_grad[] = {
    {"kernel=2",
     {"f batch:2 channels:3 height:2 width:2",
      "u<4 batch:2 channels:3 height:2 width:2",
      "f batch:2 channels:3 height:4 width:5"},
     24},
    {"kernel=3 stride=2",
     {"f batch:2 channels:2 height:4 width:3",
      "u<9 batch:2 channels:2 height:4 width:3",
      "f batch:2 channels:2 height:9 width:7"},
     48},
    {"kernel=3 stride=2",
     {"f batch:2 channels:8 height:4 width:3",
      "u<9 batch:2 channels:8 height:4 width:3",
      "f batch:2 channels:8 height:9 width:7"},
     192},
    {0},
};

const tt_op_def tt_op_max_pool = {
    .name = "max_pool",
    .doc = "The largest entry under each window, and where it is.",
    .options = options,
    .params_bytes = sizeof(tt_pool_params),
    .flags = TT_OP_JUMPS,
    .no_grad = 2,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_max_pool_grad = {
    .name = "max_pool_grad",
    .doc = "Gradient of max_pool: sends each output's back to the largest.",
    .options = options,
    .params_bytes = sizeof(tt_pool_params),
    .shape_only = 4,
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost_grad,
    .samples = samples_grad,
};
