// lstm - the recurrence over a sequence, so that one kernel does all steps:
// gates(t) = xg(t) + h(t-1) * w_hh^T + b_hh, and the cell on them.
//
//   in    xg [seq, batch, 4 hidden], w_hh [4 hidden, hidden], b_hh or none, h0, c0
//   out   h and c of every step [seq, batch, hidden]; the gates after their
//         functions, for the gradient. c has the type of statistics
//   grad  lstm_grad gives the gradient of xg, h0 and c0; that of b_hh is a
//         bias_grad of the first, that of w_hh its product with h(t-1)
//
//   flops  products, 8 hidden^2 per step and sample, and 9 per hidden unit for the
//          cell; backward 24
//   shard  batch

#include "ops/nn/lstm.h"

#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/ops.h"

enum { XG, W, BIAS, H0, C0 };
enum { H, C, GATES };
enum { DH, DC, GW, GGATES, GC, GC0 };
enum { DXG, DH0, DC0 };
enum { CELL = 9, CELL_GRAD = 24 };

// gates is [seq, batch, 4 hidden], w [4 hidden, hidden].
static tt_status check_gates(const char *op, const tt_shape *gates,
                             const tt_shape *w)
{
    if (gates->ndim != 3 || w->ndim != 2)
        return tt_fail(TT_ERR_ARG,
                       "%s: the gates must have 3 dimensions and w_hh 2, not "
                       "%d and %d",
                       op, (int)gates->ndim, (int)w->ndim);
    const int64_t n = tt_shape_dim(gates, 2);
    const int64_t hidden = tt_shape_dim(w, 1);
    if (n != 4 * hidden || tt_shape_dim(w, 0) != n)
        return tt_fail(TT_ERR_ARG,
                       "%s: with hidden=%lld, gates and rows of w_hh must be "
                       "%lld, not %lld and %lld",
                       op, (long long)hidden, (long long)(4 * hidden),
                       (long long)n, (long long)tt_shape_dim(w, 0));
    return TT_OK;
}

// Input i is [batch, hidden].
static tt_status check_state(const tt_op_io *io, const char *op, int i,
                             int64_t batch, int64_t hidden)
{
    if (!tt_io_has(io, i))
        return tt_fail(TT_ERR_ARG, "%s: input %d is missing", op, i);
    const tt_shape *s = &io->in[i].shape;
    if (s->ndim != 2 || tt_shape_dim(s, 0) != batch ||
        tt_shape_dim(s, 1) != hidden)
        return tt_fail(TT_ERR_ARG,
                       "%s: input %d must be [batch, hidden], %lld by %lld", op,
                       i, (long long)batch, (long long)hidden);
    return TT_OK;
}

static tt_status infer(tt_op_io *io)
{
    const char *op = "lstm";
    TT_TRY(tt_infer_inputs(io, op, 2, 5));
    TT_TRY(tt_infer_float(io, op, XG));
    const tt_dtype dtype = io->in[XG].dtype;
    const tt_shape *xg = &io->in[XG].shape;
    TT_TRY(tt__expect_dtype(io, op, W, dtype, "w_hh"));
    TT_TRY(check_gates(op, xg, &io->in[W].shape));
    const int64_t batch = tt_shape_dim(xg, 1);
    const int64_t hidden = tt_shape_dim(&io->in[W].shape, 1);
    if (tt_io_has(io, BIAS)) {
        TT_TRY(tt__expect_weight(io, op, BIAS, dtype, "b_hh"));
        TT_TRY(tt__expect_vector(io, op, BIAS, 4 * hidden, "b_hh"));
    }
    TT_TRY(check_state(io, op, H0, batch, hidden));
    TT_TRY(check_state(io, op, C0, batch, hidden));
    TT_TRY(tt__expect_dtype(io, op, H0, dtype, "h0"));
    TT_TRY(tt__expect_weight(io, op, C0, dtype, "c0"));
    io->n_out = 3;
    tt_shape *h = &io->out[H].shape;
    TT_TRY(tt_shape_push_dim(h, xg, 0));
    TT_TRY(tt_shape_push_dim(h, xg, 1));
    TT_TRY(tt_shape_push_dim(h, &io->in[H0].shape, 1));
    TT_TRY(tt__expect_legal(op, h));
    io->out[C].shape = *h;
    io->out[GATES].shape = *xg;
    io->out[H].dtype = io->out[GATES].dtype = dtype;
    io->out[C].dtype = tt_dtype_master(dtype);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const tt_val in[] = {dout[H],          dout[C],      node->in[W],
                         node->out[GATES], node->out[C], node->in[C0]};
    tt_val out[TT_MAX_OUT];
    (void)tt_call(b, &tt_op_lstm_grad, NULL, in, 6, out);
    din[XG] = out[DXG];
    din[H0] = out[DH0];
    din[C0] = out[DC0];
    if (need[W])
        din[W] = tt_call(
            b, &tt_op_lstm_grad_w, NULL,
            (const tt_val[]){out[DXG], node->out[H], node->in[H0], node->in[W]},
            4, NULL);
    if (tt_is(node->in[BIAS]) && need[BIAS])
        din[BIAS] =
            tt_call(b, &tt_op_bias_grad, NULL,
                    (const tt_val[]){out[DXG], node->in[BIAS]}, 2, NULL);
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__split batch = {XG, "=..00", "===", NULL};
    tt__shard_dim(io, axis_size, 1, &batch, sigs);
}

// Products and `per_unit` operations for each step, sample and hidden unit.
static void cost_steps(const tt_shape *gates, double per_unit, tt_cost *cost)
{
    const double steps = (double)tt_shape_dim(gates, 0);
    const double units = (double)tt_shape_count(gates) / 4;
    const double hidden = (double)tt_shape_dim(gates, 2) / 4;
    cost->flops = units * (8 * hidden + per_unit);
    cost->work = units * (4 * hidden + per_unit);
    cost->depth = steps * (tt_cost_log2(hidden) + 5);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_io(io, 0, cost_out);
    cost_steps(&io->in[XG].shape, CELL, cost_out);
}

tt_val tt_lstm(tt_builder *b, const tt_lstm_args *args, tt_val *c_out)
{
    const tt_val in[] = {args->xg, args->w_hh, args->b_hh, args->h0, args->c0};
    tt_val out[TT_MAX_OUT];
    (void)tt_call(b, &tt_op_lstm, NULL, in, 5, out);
    if (c_out != NULL)
        *c_out = out[C];
    return out[H];
}

static const tt_sample samples[] = {
    {"",
     {"f seq:3 batch:4 gates:4.hidden:2", "f gates:4.hidden:2 from:2",
      "f gates:4.hidden:2", "f batch:4 hidden:2", "m batch:4 hidden:2"},
     600}, // 24 * (8 * 2 + 9)
    {"",
     {"f seq:2 batch:3 gates:4.hidden:3", "f gates:4.hidden:3 from:3", "-",
      "f batch:3 hidden:3", "m batch:3 hidden:3"},
     594}, // 18 * (8 * 3 + 9)
    {0},
};

const tt_op_def tt_op_lstm = {
    .name = "lstm",
    .doc = "Long short-term memory over a sequence.",
    .no_grad = 4,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

// ---- gradient of the recurrence ----

static tt_status infer_grad(tt_op_io *io)
{
    const char *op = "lstm_grad";
    if (io->n_in != 6 || (!tt_io_has(io, DH) && !tt_io_has(io, DC)))
        return tt_fail(TT_ERR_ARG, "%s: takes 6 inputs, dh or dc among them",
                       op);
    for (int i = GW; i <= GC0; i++)
        if (!tt_io_has(io, i))
            return tt_fail(TT_ERR_ARG, "%s: input %d is missing", op, i);
    const tt_shape *gates = &io->in[GGATES].shape;
    const tt_shape *c = &io->in[GC].shape;
    TT_TRY(tt_infer_float(io, op, GGATES));
    TT_TRY(check_gates(op, gates, &io->in[GW].shape));
    TT_TRY(check_state(io, op, GC0, tt_shape_dim(gates, 1),
                       tt_shape_dim(&io->in[GW].shape, 1)));
    const tt_dtype dtype = io->in[GGATES].dtype;
    const tt_dtype wide = tt_dtype_master(dtype);
    if (tt_io_has(io, DH)) {
        TT_TRY(tt__expect_dims(io, op, DH, c, "dh"));
        TT_TRY(tt__expect_dtype(io, op, DH, dtype, "dh"));
    }
    if (tt_io_has(io, DC)) {
        TT_TRY(tt__expect_dims(io, op, DC, c, "dc"));
        TT_TRY(tt__expect_dtype(io, op, DC, wide, "dc"));
    }
    TT_TRY(tt__expect_dtype(io, op, GW, dtype, "w_hh"));
    TT_TRY(tt__expect_dtype(io, op, GC, wide, "c"));
    TT_TRY(tt__expect_weight(io, op, GC0, dtype, "c0"));
    io->n_out = 3;
    io->out[DXG].shape = *gates;
    io->out[DH0].shape = io->out[DC0].shape = io->in[GC0].shape;
    io->out[DXG].dtype = io->out[DH0].dtype = dtype;
    io->out[DC0].dtype = io->in[GC0].dtype;
    return TT_OK;
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__split batch = {GGATES, "==.==0", "=00", NULL};
    tt__shard_dim(io, axis_size, 1, &batch, sigs);
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_io(io, 0, cost_out);
    cost_steps(&io->in[GGATES].shape, CELL_GRAD, cost_out);
}

static const tt_sample samples_grad[] = {
    {"",
     {"f seq:3 batch:4 hidden:2", "m seq:3 batch:4 hidden:2",
      "f gates:4.hidden:2 from:2", "f+ seq:3 batch:4 gates:4.hidden:2",
      "m seq:3 batch:4 hidden:2", "m batch:4 hidden:2"},
     960}, // 24 * (8 * 2 + 24)
    {"",
     {"f seq:2 batch:3 hidden:3", "-", "f gates:4.hidden:3 from:3",
      "f seq:2 batch:3 gates:4.hidden:3", "m seq:2 batch:3 hidden:3",
      "m batch:3 hidden:3"},
     864}, // 18 * (8 * 3 + 24)
    {0},
};

const tt_op_def tt_op_lstm_grad = {
    .name = "lstm_grad",
    .doc = "Gradients of an LSTM's gates and first state.",
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost_grad,
    .samples = samples_grad,
};

// ---- gradient of the weights ----

static tt_status infer_grad_w(tt_op_io *io)
{
    const char *op = "lstm_grad_w";
    TT_TRY(tt_infer_inputs(io, op, 4, 4));
    TT_TRY(tt_infer_float(io, op, 0));
    const tt_shape *dxg = &io->in[0].shape;
    const tt_shape *w = &io->in[3].shape;
    TT_TRY(check_gates(op, dxg, w));
    tt_shape h = {0};
    TT_TRY(tt_shape_push_dim(&h, dxg, 0));
    TT_TRY(tt_shape_push_dim(&h, dxg, 1));
    TT_TRY(tt_shape_push(&h, "hidden", tt_shape_dim(w, 1)));
    TT_TRY(tt__expect_dtype(io, op, 1, io->in[0].dtype, "h"));
    TT_TRY(tt__expect_dtype(io, op, 2, io->in[0].dtype, "h0"));
    TT_TRY(tt__expect_dims(io, op, 1, &h, "h"));
    TT_TRY(check_state(io, op, 2, tt_shape_dim(dxg, 1), tt_shape_dim(w, 1)));
    io->n_out = 1;
    io->out[0].dtype = tt_dtype_master(io->in[0].dtype);
    io->out[0].shape = *w;
    return TT_OK;
}

static void shard_grad_w(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__split batch = {0, "==0.", "+", NULL};
    tt__shard_dim(io, axis_size, 1, &batch, sigs);
}

static void cost_grad_w(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_shape *dxg = &io->in[0].shape;
    const double rows =
        (double)tt_shape_dim(dxg, 0) * (double)tt_shape_dim(dxg, 1);
    tt_cost_io(io, 8, cost_out);
    cost_out->work = rows * tt_cost_count(&io->out[0]);
    cost_out->flops = 2 * cost_out->work;
    cost_out->depth = tt_cost_log2(rows);
}

static const tt_sample samples_grad_w[] = {
    {"",
     {"f seq:3 batch:4 gates:4.hidden:2", "f seq:3 batch:4 hidden:2",
      "f batch:4 hidden:2", "f gates:4.hidden:2 from:2"},
     384}, // 2 * 12 * 16
    {"",
     {"f seq:1 batch:3 gates:4.hidden:3", "f seq:1 batch:3 hidden:3",
      "f batch:3 hidden:3", "f gates:4.hidden:3 from:3"},
     216}, // 2 * 3 * 36
    {0},
};

const tt_op_def tt_op_lstm_grad_w = {
    .name = "lstm_grad_w",
    .doc = "Gradient of an LSTM's recurrent weights.",
    .shape_only = 8,
    .infer = infer_grad_w,
    .shard = shard_grad_w,
    .cost = cost_grad_w,
    .samples = samples_grad_w,
};
