// adaptive_avg_pool - means of a given number of windows that cover each spatial
// dimension: window i of m over n entries is [i n / m, ceil((i + 1) n / m)).
//
// On a split spatial dimension every rank sums what it has of each window, divided
// by the whole window's size: a term of the result. flops: one addition per entry
// of each window; so has the gradient.

#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/nn/pool.h"
#include "ops/ops.h"
#include "ops/shape/slide.h"

static tt_status infer_y(const char *op, const tt_adaptive_pool_params *p,
                         const tt_shape *x, tt_shape *y)
{
    TT_TRY(tt_slide_check_image(op, x));
    if (p->out.n != 1 && p->out.n != x->ndim - 2)
        return tt_fail(TT_ERR_ARG,
                       "%s: out has %lld entries for %d spatial dimensions", op,
                       (long long)p->out.n, (int)x->ndim - 2);
    *y = (tt_shape){0};
    TT_TRY(tt_shape_push_dim(y, x, 0));
    TT_TRY(tt_shape_push_dim(y, x, 1));
    for (int d = 2; d < x->ndim; d++)
        TT_TRY(tt_shape_push(y, x->factor[x->first[d]].name,
                             tt_slide_entry(&p->out, d - 2, 1)));
    return TT_OK;
}

static tt_status infer(tt_op_io *io)
{
    const char *op = "adaptive_avg_pool";
    TT_TRY(tt_infer_inputs(io, op, 1, 1));
    TT_TRY(tt_infer_float(io, op, 0));
    io->n_out = 1;
    io->out[0].dtype = io->in[0].dtype;
    return infer_y(op, io->params, &io->in[0].shape, &io->out[0].shape);
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_val in[] = {dout[0], node->in[0]};
    if (need[0])
        din[0] = tt_call(b, &tt_op_adaptive_avg_pool_grad, node->params, in, 2,
                         NULL);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__split same = {0, "=", "=", NULL};
    const tt__split summed = {0, "=", "+", NULL};
    for (int d = 0; d < io->in[0].shape.ndim; d++)
        tt__shard_dim(io, axis_size, d, d < 2 ? &same : &summed, sigs);
}

// Entries of all windows together, and of the largest.
static void count_entries(const tt_shape *x, const tt_shape *y, double *all,
                          double *largest)
{
    *all = (double)tt_shape_dim(x, 0) * (double)tt_shape_dim(x, 1);
    *largest = 1;
    for (int d = 2; d < x->ndim; d++) {
        const int64_t n = tt_shape_dim(x, d), m = tt_shape_dim(y, d);
        int64_t sum = 0, most = 0;
        for (int64_t i = 0; i < m; i++) {
            const int64_t size =
                tt_adaptive_hi(i, n, m) - tt_adaptive_lo(i, n, m);
            sum += size;
            most = size > most ? size : most;
        }
        *all *= (double)sum;
        *largest *= (double)most;
    }
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    double all, largest;
    count_entries(&io->in[0].shape, &io->out[0].shape, &all, &largest);
    tt_cost_reduction(io, 0, all, largest, cost_out);
}

static tt_status infer_grad(tt_op_io *io)
{
    const char *op = "adaptive_avg_pool_grad";
    TT_TRY(tt_infer_inputs(io, op, 2, 2));
    TT_TRY(tt_infer_float(io, op, 0));
    tt_shape y;
    TT_TRY(infer_y(op, io->params, &io->in[1].shape, &y));
    TT_TRY(tt__expect_dims(io, op, 0, &y, "dy"));
    io->n_out = 1;
    io->out[0].dtype = io->in[0].dtype;
    io->out[0].shape = io->in[1].shape;
    return TT_OK;
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__split same = {1, "==", "=", NULL};
    const tt__split space = {1, ".=", "=", NULL};
    for (int d = 0; d < io->in[1].shape.ndim; d++)
        tt__shard_dim(io, axis_size, d, d < 2 ? &same : &space, sigs);
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    double all, largest;
    count_entries(&io->in[1].shape, &io->in[0].shape, &all, &largest);
    tt_cost_reduction(io, 2, all, largest, cost_out);
}

static const tt_opt options[] = {
    {"out", "1", "windows, per dimension or for all", TT_OPT_I64S,
     offsetof(tt_adaptive_pool_params, out), NULL, 1, 1e6},
    {0},
};

static const tt_sample samples[] = {
    {"", {"f batch:2 channels:3 height:4 width:5"}, 120},
    {"out=3,2", {"f batch:2 channels:2 height:7 width:4"}, 144}, // 4 * 9 * 4
    {"out=3", {"f batch:3 channels:2 width:2"}, 24},             // 6 * 4
    {"out=2,1,2", {"f batch:1 channels:2 depth:3 height:2 width:3"}, 64},
    {"", {"f batch:2 channels:8 height:4 width:5"}, 320},
    {0},
};

static const tt_sample samples_grad[] = {
    {"",
     {"f batch:2 channels:3 height:1 width:1",
      "f batch:2 channels:3 height:4 width:5"},
     120},
    {"out=3,2",
     {"f batch:2 channels:2 height:3 width:2",
      "f batch:2 channels:2 height:7 width:4"},
     144},
    {"",
     {"f batch:2 channels:8 height:1 width:1",
      "f batch:2 channels:8 height:4 width:5"},
     320},
    {0},
};

const tt_op_def tt_op_adaptive_avg_pool = {
    .name = "adaptive_avg_pool",
    .doc = "Means of a given number of windows.",
    .options = options,
    .params_bytes = sizeof(tt_adaptive_pool_params),
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_adaptive_avg_pool_grad = {
    .name = "adaptive_avg_pool_grad",
    .doc = "Gradient of adaptive_avg_pool.",
    .options = options,
    .params_bytes = sizeof(tt_adaptive_pool_params),
    .shape_only = 2,
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost_grad,
    .samples = samples_grad,
};
