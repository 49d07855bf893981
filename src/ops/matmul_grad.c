// matmul_grad - gradients of the weights of a matmul whose weights are shared by
// all leading dimensions.
//
//   matmul_grad_w   dw[k, n] = sum over lead of x[lead, k] * dy[lead, n]
//   bias_grad       db[n]    = sum over lead of dy[lead, n]
//
// The last input of each, w or b, is optional and gives the shape of the result;
// without it the factors are those of x and dy. Sums are of type f64 beside f64,
// otherwise f32. flops: 2 * lead * k * n, and lead * n.

#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/matmul.h"
#include "ops/ops.h"

static int64_t count_rows(const tt_shape *x)
{
    return tt_shape_count(x) / tt_shape_dim(x, x->ndim - 1);
}

static tt_status infer_w(tt_op_io *io)
{
    const tt_matmul_grad_w_params *p = io->params;
    const char *op = "matmul_grad_w";
    TT_TRY(tt_infer_inputs(io, op, 2, 3));
    TT_TRY(tt_infer_float(io, op, 0));
    TT_TRY(tt__expect_dtype(io, op, 1, io->in[0].dtype, "dy"));
    const tt_shape *x = &io->in[0].shape;
    const tt_shape *dy = &io->in[1].shape;
    if (x->ndim < 2 || x->ndim != dy->ndim)
        return tt_fail(
            TT_ERR_ARG,
            "%s: x and dy need the same number of dimensions, two or "
            "more, not %d and %d",
            op, (int)x->ndim, (int)dy->ndim);
    for (int d = 0; d < x->ndim - 1; d++)
        if (tt_shape_dim(x, d) != tt_shape_dim(dy, d))
            return tt_fail(
                TT_ERR_ARG,
                "%s: leading extents differ: x has %lld, dy has %lld "
                "in dimension %d",
                op, (long long)tt_shape_dim(x, d),
                (long long)tt_shape_dim(dy, d), d);
    const tt_shape *rows = p->transposed ? dy : x;
    const tt_shape *cols = p->transposed ? x : dy;
    tt_shape dw = {0};
    io->n_out = 1;
    io->out[0].dtype = tt_dtype_master(io->in[0].dtype);
    TT_TRY(tt_shape_push(&dw, "row", tt_shape_dim(rows, rows->ndim - 1)));
    TT_TRY(tt_shape_push(&dw, "col", tt_shape_dim(cols, cols->ndim - 1)));
    if (tt_io_has(io, 2)) {
        TT_TRY(tt__expect_dims(io, op, 2, &dw, "w"));
        io->out[0].shape = io->in[2].shape;
        return TT_OK;
    }
    dw = (tt_shape){0};
    TT_TRY(tt_shape_push_dim(&dw, rows, rows->ndim - 1));
    TT_TRY(tt_shape_push_dim(&dw, cols, cols->ndim - 1));
    io->out[0].shape = dw;
    return tt__expect_legal(op, &dw);
}

static void shard_w(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt_matmul_grad_w_params *p = io->params;
    const tt__split lead = {0, "==.", "+", NULL};
    const tt__split k = p->transposed ? (tt__split){0, "=.1", "1", NULL}
                                      : (tt__split){0, "=.0", "0", NULL};
    const tt__split n = p->transposed ? (tt__split){1, ".=0", "0", NULL}
                                      : (tt__split){1, ".=1", "1", NULL};
    tt__shard_lead(io, axis_size, &lead, sigs);
    tt__shard_last(io, axis_size, &k, sigs);
    tt__shard_last(io, axis_size, &n, sigs);
}

static void cost_w(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    const double dw = tt_cost_count(&io->out[0]);
    const double lead = (double)count_rows(&io->in[0].shape);
    tt_cost_io(io, 4, cost);
    cost->flops = 2 * lead * dw;
    cost->work = lead * dw;
    cost->depth = tt_cost_log2(lead);
}

static const tt_opt options_w[] = {
    {"transposed", "false", "dw is [n, k]", TT_OPT_BOOL,
     offsetof(tt_matmul_grad_w_params, transposed), NULL, 0, 0},
    {0},
};

static const tt_sample samples_w[] = {
    {"", {"f batch:3 k:5", "f batch:3 n:4"}, 120},
    {"transposed=true",
     {"f batch:2 seq:3 embed:4", "f batch:2 seq:3 heads:2.head:3",
      "f heads:2.head:3 embed:4"},
     288},
    {"", {"f batch:4 embed:5", "f batch:4 embed:3", "f in:5 out:3"}, 120},
    {"transposed=true", {"f batch:32 embed:8", "f batch:32 ff:24"}, 12288},
    {"transposed=true", {"f batch:8 embed:8", "f batch:8 vocab:5"}, 640},
    {0},
};

const tt_op_def tt_op_matmul_grad_w = {
    .name = "matmul_grad_w",
    .doc = "Gradient of a matmul's shared right side.",
    .options = options_w,
    .params_bytes = sizeof(tt_matmul_grad_w_params),
    .shape_only = 4,
    .infer = infer_w,
    .shard = shard_w,
    .cost = cost_w,
    .samples = samples_w,
};

// ---- bias ----

static tt_status infer_bias(tt_op_io *io)
{
    const char *op = "bias_grad";
    TT_TRY(tt_infer_inputs(io, op, 1, 2));
    TT_TRY(tt_infer_float(io, op, 0));
    const tt_shape *dy = &io->in[0].shape;
    if (dy->ndim < 2)
        return tt_fail(TT_ERR_ARG, "%s: dy needs two dimensions or more", op);
    io->n_out = 1;
    io->out[0].dtype = tt_dtype_master(io->in[0].dtype);
    if (!tt_io_has(io, 1))
        return tt_shape_push_dim(&io->out[0].shape, dy, dy->ndim - 1);
    TT_TRY(
        tt__expect_vector(io, op, 1, tt_shape_dim(dy, dy->ndim - 1), "bias"));
    io->out[0].shape = io->in[1].shape;
    return TT_OK;
}

static void shard_bias(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__split lead = {0, "=.", "+", NULL};
    const tt__split last = {0, "=0", "0", NULL};
    tt__shard_lead(io, axis_size, &lead, sigs);
    tt__shard_last(io, axis_size, &last, sigs);
}

static void cost_bias(const tt_op_io *io, int axis_size, tt_cost *cost)
{
    (void)axis_size;
    tt_cost_reduction(io, 2, tt_cost_count(&io->in[0]),
                      (double)count_rows(&io->in[0].shape), cost);
}

static const tt_sample samples_bias[] = {
    {"", {"f batch:3 n:5"}, 15},
    {"", {"f batch:2 seq:3 heads:2.head:3", "f heads:2.head:3"}, 36},
    {0},
};

const tt_op_def tt_op_bias_grad = {
    .name = "bias_grad",
    .doc = "Gradient of a bias: the sum over all leading dimensions.",
    .shape_only = 2,
    .infer = infer_bias,
    .shard = shard_bias,
    .cost = cost_bias,
    .samples = samples_bias,
};
