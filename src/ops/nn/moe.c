// moe - tokens to the slots of experts and back.
//
//   dispatch   z[e, b, s] = sum of (gate) x[b, t] over the choices placed there
//   combine    y[b, t] = sum over choices of (gate) z[place]
//   gate_grad  dgate[b, t, c] = dy[b, t] . z[place]
//
// dispatch and combine are each other's transposes, so each is the other's gradient.
//
//   flops   one per element moved for the sum (combine) and for the gate (both);
//           gate_grad two
//   shard   by sample, by column; by expert: dispatch fills the slots of the experts
//           that are here, combine and gate_grad add up theirs; by token: dispatch
//           is a partial sum
//   expert parallelism: x split by sample, experts split: an all-to-all between

#include "ops/nn/moe.h"

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

enum { X, PLACE, GATE };               // of dispatch, combine
enum { DY, Z, GRAD_PLACE };            // of gate_grad
enum { EXPERT, SAMPLE, SLOT, COLUMN }; // dims of what lies with experts

static tt_status want_dims(const tt_op_io *io, int i, int ndim, const char *op,
                           const char *what)
{
    return io->in[i].shape.ndim == ndim
               ? TT_OK
               : tt_fail(TT_ERR_ARG, "%s: input %d is %s", op, i, what);
}

static const char of_tokens[] = "[batch, seq, embed]";
static const char of_experts[] = "[experts, batch, slot, embed]";
static const char of_choices[] = "[batch, seq, choice]";

static tt_status check_places(const tt_op_io *io, int place, int gate,
                              const char *op)
{
    TT_TRY(want_dims(io, place, 3, op, of_choices));
    TT_TRY(tt__want_dtype(io, place, TT_I32, op));
    if (gate >= 0 && tt_io_has(io, gate)) {
        TT_TRY(tt_infer_float(io, op, gate));
        TT_TRY(tt_infer_same_dims(io, op, place, gate));
    }
    return TT_OK;
}

static tt_status check_samples(const tt_op_io *io, int a, int dim_a, int b,
                               int dim_b, const char *op)
{
    const int64_t n = tt_shape_dim(&io->in[a].shape, dim_a);
    const int64_t m = tt_shape_dim(&io->in[b].shape, dim_b);
    return n == m ? TT_OK
                  : tt_fail(TT_ERR_ARG,
                            "%s: %lld in input %d and %lld in input %d", op,
                            (long long)n, a, (long long)m, b);
}

static tt_status infer_dispatch(tt_op_io *io)
{
    static const char op[] = "dispatch";
    const tt_dispatch_params *p = io->params;
    TT_TRY(tt_infer_inputs(io, op, 2, 3));
    TT_TRY(tt_infer_float(io, op, X));
    TT_TRY(want_dims(io, X, 3, op, of_tokens));
    TT_TRY(check_places(io, PLACE, GATE, op));
    TT_TRY(check_samples(io, X, 0, PLACE, 0, op));
    TT_TRY(check_samples(io, X, 1, PLACE, 1, op));
    tt_shape z = {0};
    TT_TRY(tt_shape_push(&z, "experts", p->experts));
    TT_TRY(tt_shape_push_dim(&z, &io->in[X].shape, 0));
    TT_TRY(tt_shape_push(&z, "slot", p->slots));
    TT_TRY(tt_shape_push_dim(&z, &io->in[X].shape, 2));
    tt_infer_add(io, io->in[X].dtype, &z);
    return TT_OK;
}

static tt_status infer_combine(tt_op_io *io)
{
    static const char op[] = "combine";
    TT_TRY(tt_infer_inputs(io, op, 2, 3));
    TT_TRY(tt_infer_float(io, op, X));
    TT_TRY(want_dims(io, X, 4, op, of_experts));
    TT_TRY(check_places(io, PLACE, GATE, op));
    TT_TRY(check_samples(io, X, SAMPLE, PLACE, 0, op));
    tt_shape y = {0};
    TT_TRY(tt_shape_push_dim(&y, &io->in[PLACE].shape, 0));
    TT_TRY(tt_shape_push_dim(&y, &io->in[PLACE].shape, 1));
    TT_TRY(tt_shape_push_dim(&y, &io->in[X].shape, COLUMN));
    tt_infer_add(io, io->in[X].dtype, &y);
    return TT_OK;
}

static tt_status infer_gate_grad(tt_op_io *io)
{
    static const char op[] = "gate_grad";
    TT_TRY(tt_infer_inputs(io, op, 3, 3));
    TT_TRY(tt_infer_float(io, op, DY));
    TT_TRY(tt_infer_float(io, op, Z));
    TT_TRY(want_dims(io, DY, 3, op, of_tokens));
    TT_TRY(want_dims(io, Z, 4, op, of_experts));
    TT_TRY(check_places(io, GRAD_PLACE, -1, op));
    TT_TRY(check_samples(io, DY, 0, GRAD_PLACE, 0, op));
    TT_TRY(check_samples(io, DY, 1, GRAD_PLACE, 1, op));
    TT_TRY(check_samples(io, DY, 2, Z, COLUMN, op));
    TT_TRY(check_samples(io, DY, 0, Z, SAMPLE, op));
    tt_infer_add(io, tt_dtype_master(io->in[DY].dtype),
                 &io->in[GRAD_PLACE].shape);
    return TT_OK;
}

// ---- gradients -----------------------------------------------------------

static tt_status grad_dispatch(tt_builder *b, const tt_node *node,
                               const tt_val *dout, const bool *need,
                               tt_val *din)
{
    const bool has_gate = node->n_in > GATE && tt_is(node->in[GATE]);
    if (has_gate && need[GATE])
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "dispatch: its gate has no gradient");
    if (need[X])
        din[X] = tt_combine(b, dout[0], node->in[PLACE],
                            has_gate ? node->in[GATE] : TT_NONE);
    return tt_builder_status(b);
}

static tt_status grad_combine(tt_builder *b, const tt_node *node,
                              const tt_val *dout, const bool *need, tt_val *din)
{
    const bool has_gate = node->n_in > GATE && tt_is(node->in[GATE]);
    const tt_dispatch_params params = {tt_dim_of(b, node->in[X], EXPERT),
                                       tt_dim_of(b, node->in[X], SLOT)};
    if (need[X])
        din[X] = tt_dispatch(b, dout[0], node->in[PLACE],
                             has_gate ? node->in[GATE] : TT_NONE, &params);
    if (has_gate && need[GATE])
        din[GATE] =
            tt_call(b, &tt_op_gate_grad, NULL,
                    (tt_val[]){dout[0], node->in[X], node->in[PLACE]}, 3, NULL);
    return tt_builder_status(b);
}

// ---- signatures ----------------------------------------------------------

static void shard_dispatch(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const int f = io->out[0].shape.first[EXPERT];
    tt__shard_dim(io, axis_size, 0, &(tt__split){X, "000", "1", NULL}, sigs);
    tt__shard_dim(io, axis_size, 2, &(tt__split){X, "2..", "3", NULL}, sigs);
    tt__shard_dim(io, axis_size, 1, &(tt__split){X, "111", "+", NULL}, sigs);
    if (!tt_can_split(&io->out[0], f, axis_size))
        return;
    tt_sig *sig = tt_sigs_add(sigs);
    if (sig != NULL)
        sig->out[0] = tt_place_split(f);
}

// A split by expert makes every rank add up rows of all tokens, of which few came from
// its experts. That costs about as much as sending the result, so `sent_bytes` says so.
// Then the partition chooses the all-to-all where tokens are split, and the partial
// sum where they are not.
static void shard_combine(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_dim(io, axis_size, SAMPLE, &(tt__split){X, "100", "0", NULL},
                  sigs);
    tt__shard_dim(io, axis_size, COLUMN, &(tt__split){X, "3..", "2", NULL},
                  sigs);
    tt__shard_dim(io, axis_size, 1, &(tt__split){PLACE, ".11", "1", NULL},
                  sigs);
    const int before = sigs->n;
    tt__shard_dim(io, axis_size, EXPERT, &(tt__split){X, "0..", "+", NULL},
                  sigs);
    for (int s = before; s < sigs->n; s++)
        sigs->sig[s].sent_bytes =
            (axis_size - 1.0) / axis_size * tt_cost_bytes(&io->out[0]);
}

static void shard_gate_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_dim(io, axis_size, 0, &(tt__split){DY, "010", "0", NULL}, sigs);
    tt__shard_dim(io, axis_size, 1, &(tt__split){DY, "1.1", "1", NULL}, sigs);
    tt__shard_dim(io, axis_size, 2, &(tt__split){DY, "23.", "+", NULL}, sigs);
    tt__shard_dim(io, axis_size, EXPERT, &(tt__split){Z, ".0.", "+", NULL},
                  sigs);
}

// ---- costs ---------------------------------------------------------------

// Elements that move: every choice has a row.
static double moved(const tt_op_io *io, int place, const tt_type *rows)
{
    return tt_cost_count(&io->in[place]) * (double)tt__last(&rows->shape);
}

static void cost_dispatch(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_move(io, 0, cost_out);
    if (tt_io_has(io, GATE))
        cost_out->flops = moved(io, PLACE, &io->in[X]);
    cost_out->work += cost_out->flops;
}

static void cost_combine(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_reduction(
        io, 0, (tt_io_has(io, GATE) ? 2 : 1) * moved(io, PLACE, &io->in[X]),
        (double)tt__last(&io->in[PLACE].shape), cost_out);
}

static void cost_gate_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_reduction(io, 0, 2 * moved(io, GRAD_PLACE, &io->in[DY]),
                      (double)tt__last(&io->in[DY].shape), cost_out);
}

// ---- helpers -------------------------------------------------------------

tt_val tt_dispatch(tt_builder *b, tt_val x, tt_val place, tt_val gate,
                   const tt_dispatch_params *params)
{
    return tt_call(b, &tt_op_dispatch, params, (tt_val[]){x, place, gate}, 3,
                   NULL);
}

tt_val tt_combine(tt_builder *b, tt_val y, tt_val place, tt_val gate)
{
    return tt_call(b, &tt_op_combine, NULL, (tt_val[]){y, place, gate}, 3,
                   NULL);
}

static const tt_opt options[] = {
    {"experts", "1", "experts of the layer", TT_OPT_I64,
     offsetof(tt_dispatch_params, experts), NULL, 1, 1 << 20},
    {"slots", "1", "tokens per expert and sample", TT_OPT_I64,
     offsetof(tt_dispatch_params, slots), NULL, 1, 1 << 24},
    {0},
};

static const tt_sample samples_dispatch[] = {
    {"experts=4 slots=3",
     {"f batch:3 seq:5 embed:6", "i<12 batch:3 seq:5 choice:2"},
     0},
    {"experts=3 slots=2",
     {"f batch:2 seq:3 embed:5", "i<6 batch:2 seq:3 choice:2",
      "m=2 batch:2 seq:3 choice:2"},
     60},
    {0},
};

static const tt_sample samples_combine[] = {
    {"",
     {"f experts:4 batch:3 slot:3 embed:6", "i<12 batch:3 seq:5 choice:2"},
     180},
    {"",
     {"f experts:3 batch:2 slot:2 embed:5", "i<6 batch:2 seq:3 choice:2",
      "m batch:2 seq:3 choice:2"},
     120},
    {0},
};

static const tt_sample samples_gate_grad[] = {
    {"",
     {"f batch:3 seq:5 embed:6", "f experts:4 batch:3 slot:3 embed:6",
      "i<12 batch:3 seq:5 choice:2"},
     360},
    {0},
};

const tt_op_def tt_op_dispatch = {
    .name = "dispatch",
    .doc = "Tokens into the slots of their experts.",
    .options = options,
    .params_bytes = sizeof(tt_dispatch_params),
    .infer = infer_dispatch,
    .grad = grad_dispatch,
    .shard = shard_dispatch,
    .cost = cost_dispatch,
    .samples = samples_dispatch,
};

const tt_op_def tt_op_combine = {
    .name = "combine",
    .doc = "What experts made of a token, added up.",
    .infer = infer_combine,
    .grad = grad_combine,
    .shard = shard_combine,
    .cost = cost_combine,
    .samples = samples_combine,
};

const tt_op_def tt_op_gate_grad = {
    .name = "gate_grad",
    .doc = "Gradient of combine's gates.",
    .infer = infer_gate_grad,
    .shard = shard_gate_grad,
    .cost = cost_gate_grad,
    .samples = samples_gate_grad,
};
