// orthogonalize - columns that are orthogonal to each other and of length 1, and span
// what those of x do: what PowerSGD needs beside products of matrices.
//
//   column j   x_j minus its parts along the columns before, divided by its length
//              (Gram-Schmidt, in its modified form); one that is left with less than
//              a millionth of its length becomes 0
//
//   flops      4 rows (j + 1) for column j, about: 2 rows cols (cols + 1) in all
//   shard      none: every column needs all rows

#include "ops/codec/codec.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/matmul.h"
#include "ops/ops.h"

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "orthogonalize", 1, 1));
    TT_TRY(tt_infer_float(io, "orthogonalize", 0));
    if (io->in[0].shape.ndim != 2)
        return tt_fail(TT_ERR_ARG, "orthogonalize: x has %d dimensions, not 2",
                       (int)io->in[0].shape.ndim);
    tt_infer_add(io, io->in[0].dtype, &io->in[0].shape);
    return TT_OK;
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const double rows = (double)tt_shape_dim(&io->in[0].shape, 0);
    const double cols = (double)tt_shape_dim(&io->in[0].shape, 1);
    tt_cost_reduction(io, 0, 2 * rows * cols * (cols + 1), rows, cost_out);
    cost_out->depth *= cols * (cols + 1) / 2;
}

tt_low_rank tt_powersgd(tt_builder *b, tt_val m, tt_val q)
{
    static const tt_matmul_params plain = {0};
    static const tt_matmul_params of_first = {.transpose_a = true};
    static const tt_matmul_params of_second = {.transpose_b = true};
    tt_low_rank r;
    const tt_val product = tt_matmul(b, m, q, TT_NONE, &plain);
    r.p = tt_call(b, &tt_op_orthogonalize, NULL, &product, 1, NULL);
    r.q = tt_matmul(b, m, r.p, TT_NONE, &of_first);
    r.approx = tt_matmul(b, r.p, r.q, TT_NONE, &of_second);
    return r;
}

static const tt_sample samples[] = {
    {"", {"f rows:5 cols:3"}, 120},
    {"", {"f rows:1 cols:1"}, 4},
    {"", {"f rows:30 cols:2"}, 360},
    {0},
};

const tt_op_def tt_op_orthogonalize = {
    .name = "orthogonalize",
    .doc = "Orthonormal columns that span the same.",
    .infer = infer,
    .cost = cost,
    .samples = samples,
};
