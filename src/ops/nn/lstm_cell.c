// lstm_cell - one step of an LSTM on gates that are summed already: element-wise
// in rows and hidden units.
//
//   in      gates [rows, 4 hidden] before their functions, c_prev [rows, hidden]
//   out     h, and c in the type of statistics
//   flops   9 per hidden unit: 4 functions, 3 for c, 2 for h; backward 31: gates
//           and c again, and 24
//   shard   rows, hidden

#include "ops/cost.h"
#include "ops/expect.h"
#include "ops/infer_common.h"
#include "ops/nn/lstm.h"
#include "ops/ops.h"

enum { GATES, C_PREV, DH, DC }; // inputs; dh and dc of the gradient
enum { H, C };

static tt_status check(const tt_op_io *io, const char *op)
{
    const tt_shape *gates = &io->in[GATES].shape;
    const tt_shape *c = &io->in[C_PREV].shape;
    TT_TRY(tt_infer_float(io, op, GATES));
    TT_TRY(tt__expect_weight(io, op, C_PREV, io->in[GATES].dtype, "c_prev"));
    if (gates->ndim == 2 && c->ndim == 2 &&
        tt_shape_dim(gates, 0) == tt_shape_dim(c, 0) &&
        tt_shape_dim(gates, 1) == 4 * tt_shape_dim(c, 1))
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "%s: gates must be [rows, 4 hidden] and c_prev [rows, "
                   "hidden]",
                   op);
}

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "lstm_cell", 2, 2));
    TT_TRY(check(io, "lstm_cell"));
    io->n_out = 2;
    io->out[H].shape = io->out[C].shape = io->in[C_PREV].shape;
    io->out[H].dtype = io->in[GATES].dtype;
    io->out[C].dtype = tt_dtype_master(io->in[GATES].dtype);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    (void)need;
    const tt_val in[] = {node->in[GATES], node->in[C_PREV], dout[H], dout[C]};
    tt_val out[TT_MAX_OUT];
    (void)tt_call(b, &tt_op_lstm_cell_grad, NULL, in, 4, out);
    din[GATES] = out[0];
    din[C_PREV] = out[1];
    return tt_builder_status(b);
}

// The gates' last dimension is "4 . hidden": its second factor is hidden.
static void shard_hidden(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt_shape *gates = &io->in[GATES].shape;
    const tt_shape *c = &io->in[C_PREV].shape;
    const int f = gates->first[1] + 1;
    const int to = c->first[1];
    if (gates->n_factors != f + 1 || c->n_factors != to + 1 ||
        gates->factor[f].size != c->factor[to].size ||
        !tt_can_split(&io->in[GATES], f, axis_size))
        return;
    tt_sig *sig = tt_sigs_add(sigs);
    if (sig == NULL)
        return;
    for (int i = 0; i < io->n_in; i++)
        sig->in[i] = tt_place_split(i == GATES ? f : to);
    for (int i = 0; i < io->n_out; i++)
        sig->out[i] = tt_place_split(to);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__split rows = {GATES, "==", "==", NULL};
    tt__shard_dim(io, axis_size, 0, &rows, sigs);
    shard_hidden(io, axis_size, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_elementwise(io, 0, 9, cost_out);
    cost_out->depth = 5;
}

static tt_status infer_grad(tt_op_io *io)
{
    const char *op = "lstm_cell_grad";
    TT_TRY(tt_infer_inputs(io, op, 2, 4));
    TT_TRY(check(io, op));
    if (!tt_io_has(io, DH) && !tt_io_has(io, DC))
        return tt_fail(TT_ERR_ARG, "%s: needs dh or dc", op);
    if (tt_io_has(io, DH))
        TT_TRY(tt__expect_dims(io, op, DH, &io->in[C_PREV].shape, "dh"));
    if (tt_io_has(io, DC))
        TT_TRY(tt__expect_dims(io, op, DC, &io->in[C_PREV].shape, "dc"));
    io->n_out = 2;
    for (int i = 0; i < 2; i++) {
        io->out[i].dtype = io->in[i].dtype;
        io->out[i].shape = io->in[i].shape;
    }
    return TT_OK;
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt__split rows = {GATES, "====", "==", NULL};
    tt__shard_dim(io, axis_size, 0, &rows, sigs);
    const int n = sigs->n;
    shard_hidden(io, axis_size, sigs);
    if (sigs->n > n) // the first output is that of the gates
        sigs->sig[n].out[0] = sigs->sig[n].in[GATES];
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_io(io, 0, cost_out);
    cost_out->flops = 31 * tt_cost_count(&io->in[C_PREV]);
    cost_out->work = cost_out->flops;
    cost_out->depth = 12;
}

static const tt_sample samples[] = {
    {"", {"f rows:3 gates:4.hidden:5", "m rows:3 hidden:5"}, 135},
    {"", {"f rows:2 all:12", "m rows:2 hidden:3"}, 54},
    {0},
};

static const tt_sample samples_grad[] = {
    {"",
     {"f rows:3 gates:4.hidden:5", "m rows:3 hidden:5", "f rows:3 hidden:5",
      "m rows:3 hidden:5"},
     465},
    {"",
     {"f rows:2 all:12", "m rows:2 hidden:3", "-", "m rows:2 hidden:3"},
     186},
    {"", {"f rows:3 all:4", "m rows:3 hidden:1", "f rows:3 hidden:1"}, 93},
    {0},
};

const tt_op_def tt_op_lstm_cell = {
    .name = "lstm_cell",
    .doc = "One step of an LSTM on summed gates.",
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_lstm_cell_grad = {
    .name = "lstm_cell_grad",
    .doc = "Gradients of one step of an LSTM.",
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost_grad,
    .samples = samples_grad,
};
