// attention - scaled dot-product attention with grouped heads, and its gradient
// from the saved log-sum-exp (probabilities are computed again).
//
//   p = exp(scale * q k' - lse)      o = p v
//   dv = p' do   ds = p * (do v' - sum(do * o))   dq = scale ds k   dk = scale ds' q
//
//   flops   per visible pair and head: 4 head forward, 10 head backward
//   shard   batch; heads (with fewer key-value heads than ranks, k and v are
//           replicated and their gradients partial); seq: rings

#include "ops/nn/attention.h"

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

#include <math.h>

enum { Q, K, V, O, LSE, DO };           // inputs of the gradient; forward: 3
enum { BATCH, SEQ, HEADS, HEAD, NDIM }; // dims of q, k, v, o

double tt_attention_scale(const tt_attention_params *params, int64_t head)
{
    return params->scale != 0 ? params->scale : 1 / sqrt((double)head);
}

tt_status tt__attention_check(const tt_op_io *io, const char *name)
{
    const tt_shape *q = &io->in[Q].shape, *k = &io->in[K].shape;
    TT_TRY(tt_infer_float(io, name, Q));
    TT_TRY(tt__want_dtype(io, K, io->in[Q].dtype, name));
    TT_TRY(tt__want_dtype(io, V, io->in[Q].dtype, name));
    if (q->ndim != NDIM || k->ndim != NDIM)
        return tt_fail(TT_ERR_ARG, "%s: needs [batch, seq, heads, head]", name);
    TT_TRY(tt_infer_same_dims(io, name, K, V));
    if (tt_shape_dim(q, BATCH) != tt_shape_dim(k, BATCH) ||
        tt_shape_dim(q, HEAD) != tt_shape_dim(k, HEAD))
        return tt_fail(TT_ERR_ARG,
                       "%s: q and k differ: batch %lld and %lld, head %lld and "
                       "%lld",
                       name, (long long)tt_shape_dim(q, BATCH),
                       (long long)tt_shape_dim(k, BATCH),
                       (long long)tt_shape_dim(q, HEAD),
                       (long long)tt_shape_dim(k, HEAD));
    if (tt_shape_dim(q, HEADS) % tt_shape_dim(k, HEADS) != 0)
        return tt_fail(TT_ERR_ARG,
                       "%s: %lld heads cannot share %lld key-value heads", name,
                       (long long)tt_shape_dim(q, HEADS),
                       (long long)tt_shape_dim(k, HEADS));
    return TT_OK;
}

static tt_status lse_shape(const tt_shape *q, tt_shape *lse_out)
{
    TT_TRY(tt_shape_push_dim(lse_out, q, BATCH));
    TT_TRY(tt_shape_push_dim(lse_out, q, HEADS));
    return tt_shape_push_dim(lse_out, q, SEQ);
}

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "attention", 3, 3));
    TT_TRY(tt__attention_check(io, "attention"));
    io->n_out = 2;
    const tt_attention_params *p = io->params;
    io->out[0].dtype =
        p->wide ? tt_dtype_master(io->in[Q].dtype) : io->in[Q].dtype;
    io->out[0].shape = io->in[Q].shape;
    io->out[1].dtype = tt_dtype_master(io->in[Q].dtype);
    return lse_shape(&io->in[Q].shape, &io->out[1].shape);
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    tt_val out[TT_MAX_OUT];
    tt_call(b, &tt_op_attention_grad, node->params,
            (tt_val[]){node->in[Q], node->in[K], node->in[V], node->out[0],
                       node->out[1], dout[0]},
            6, out);
    for (int i = 0; i < 3; i++)
        if (need[i])
            din[i] = out[i];
    return tt_builder_status(b);
}

// Whether each query head stays on the rank of its key-value head when both are cut
// into equal blocks. Other axes must have cut both, or neither.
static bool heads_align(const tt_op_io *io, int axis_size)
{
    const tt_type *q = &io->in[Q], *k = &io->in[K];
    const int64_t nq = tt_io_extent(io, q, q->shape.first[HEADS]);
    const int64_t nk = tt_io_extent(io, k, k->shape.first[HEADS]);
    return nk >= axis_size &&
           nq * k->shape.factor[k->shape.first[HEADS]].size ==
               nk * q->shape.factor[q->shape.first[HEADS]].size &&
           (nq == nk || (nq % axis_size == 0 && nk % axis_size == 0));
}

tt_sig *tt__attention_shard_heads(const tt_op_io *io, int axis_size,
                                  tt_sigs *sigs)
{
    const int q = io->in[Q].shape.first[HEADS];
    const int k = io->in[K].shape.first[HEADS];
    if (tt_io_extent(io, &io->in[Q], q) < axis_size)
        return NULL;
    tt_sig *sig = tt_sigs_add(sigs);
    if (sig == NULL)
        return NULL;
    const bool align = heads_align(io, axis_size);
    sig->in[Q] = sig->out[0] = tt_place_split(q);
    sig->in[K] = sig->in[V] = align ? tt_place_split(k) : tt_place_replicate();
    return sig;
}

static void shard_heads(const tt_op_io *io, int axis_size, bool is_grad,
                        tt_sigs *sigs)
{
    tt_sig *sig = tt__attention_shard_heads(io, axis_size, sigs);
    if (sig == NULL)
        return;
    const tt_place q = sig->in[Q], kv = sig->in[K];
    sig->way = TT_WAY_EXCHANGE;
    const tt_place lse =
        tt_place_split(io->in[Q].shape.first[1] - io->in[Q].shape.first[0]);
    if (is_grad) {
        sig->in[O] = sig->in[DO] = q;
        sig->in[LSE] = lse;
        sig->out[1] = sig->out[2] =
            kv.kind == TT_SPLIT ? kv : tt_place_partial(TT_SUM);
    } else {
        sig->out[1] = lse;
    }
    if (kv.kind != TT_SPLIT)
        tt__attention_shard_copies(io, axis_size, is_grad, sigs);
}

// A ring sends all keys and values past every rank, which is what is counted here.
// Their gradients travel too; these are left out, since otherwise gathering would look
// cheaper, and then every rank would compute everything.
static void shard_seq(const tt_op_io *io, int axis_size, const tt__split *split,
                      tt_sigs *sigs)
{
    const int before = sigs->n;
    tt__shard_dim(io, axis_size, SEQ, split, sigs);
    for (int s = before; s < sigs->n; s++) {
        sigs->sig[s].way = TT_WAY_RING;
        sigs->sig[s].sent_bytes =
            (axis_size - 1.0) / axis_size *
            (tt_cost_bytes(&io->in[K]) + tt_cost_bytes(&io->in[V]));
    }
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_dim(io, axis_size, BATCH, &(tt__split){Q, "000", "00", NULL},
                  sigs);
    shard_heads(io, axis_size, false, sigs);
    shard_seq(io, axis_size, &(tt__split){Q, "111", "12", tt__attention_ring},
              sigs);
}

// Pairs of query and key that the mask leaves, for one head, as if the local part began
// at the first position.
static double pairs(const tt_op_io *io)
{
    const tt_attention_params *p = io->params;
    const double nq = (double)tt_shape_dim(&io->in[Q].shape, SEQ);
    const double nk = (double)tt_shape_dim(&io->in[K].shape, SEQ);
    if (!p->causal)
        return nq * nk;
    const double n = fmin(nq, nk);
    return n * (n + 1) / 2 + (nq - n) * nk;
}

static void pair_cost(const tt_op_io *io, double per_pair, tt_cost *cost)
{
    const tt_shape *q = &io->in[Q].shape;
    const double rows =
        (double)(tt_shape_dim(q, BATCH) * tt_shape_dim(q, HEADS) *
                 tt_shape_dim(q, HEAD));
    tt_cost_reduction(io, 0, per_pair * pairs(io) * rows,
                      (double)tt_shape_dim(&io->in[K].shape, SEQ), cost);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    pair_cost(io, 4, cost_out);
}

static tt_status infer_grad(tt_op_io *io)
{
    tt_shape lse = {0};
    TT_TRY(tt_infer_inputs(io, "attention_grad", 6, 6));
    TT_TRY(tt__attention_check(io, "attention_grad"));
    TT_TRY(tt_infer_same_dims(io, "attention_grad", Q, O));
    TT_TRY(tt_infer_same_dims(io, "attention_grad", Q, DO));
    TT_TRY(lse_shape(&io->in[Q].shape, &lse));
    if (!tt_shape_same_dims(&lse, &io->in[LSE].shape))
        return tt_fail(TT_ERR_ARG,
                       "attention_grad: lse must be [batch, heads, seq]");
    io->n_out = 3;
    for (int i = 0; i < 3; i++) {
        io->out[i].dtype = io->in[i].dtype;
        io->out[i].shape = io->in[i].shape;
    }
    return TT_OK;
}

static void shard_grad(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_dim(io, axis_size, BATCH, &(tt__split){Q, "000000", "000", NULL},
                  sigs);
    shard_heads(io, axis_size, true, sigs);
    shard_seq(io, axis_size,
              &(tt__split){Q, "111121", "111", tt__attention_ring_grad}, sigs);
}

static void cost_grad(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    pair_cost(io, 10, cost_out);
}

tt_val tt_attention(tt_builder *b, const tt_val qkv[3],
                    const tt_attention_params *params, tt_val *lse_out)
{
    tt_val out[TT_MAX_OUT];
    tt_call(b, &tt_op_attention, params, qkv, 3, out);
    if (lse_out != NULL)
        *lse_out = out[1];
    return out[0];
}

static const tt_opt options[] = {
    {.name = "causal",
     .fallback = "false",
     .doc = "hide keys after the query",
     .type = TT_OPT_BOOL,
     .offset = offsetof(tt_attention_params, causal)},
    {.name = "scale",
     .fallback = "0",
     .doc = "factor on the scores; 0: 1 / sqrt(head)",
     .type = TT_OPT_F64,
     .offset = offsetof(tt_attention_params, scale)},
    {.name = "wide",
     .fallback = "false",
     .doc = "attention's o is f32 where q, k and v are of 16 bits",
     .type = TT_OPT_BOOL,
     .offset = offsetof(tt_attention_params, wide)},
    {0},
};

static const tt_sample samples[] = {
    {"",
     {"f batch:2 seq:5 heads:3 head:4", "f batch:2 seq:5 heads:3 head:4",
      "f batch:2 seq:5 heads:3 head:4"},
     2400},
    {"causal=true scale=0.7",
     {"f batch:3 seq:7 heads:4 head:3", "f batch:3 seq:7 kv_heads:2 head:3",
      "f batch:3 seq:7 kv_heads:2 head:3"},
     4032},
    {"causal=true",
     {"f batch:1 seq:4 heads:6 head:2", "f batch:1 seq:4 kv_heads:1 head:2",
      "f batch:1 seq:4 kv_heads:1 head:2"},
     480},
    {"causal=true wide=true",
     {"f batch:1 seq:4 heads:6 head:2", "f batch:1 seq:4 kv_heads:1 head:2",
      "f batch:1 seq:4 kv_heads:1 head:2"},
     480},
    {"causal=true",
     {"f batch:2 seq:7 heads:2 head:16", "f batch:2 seq:7 heads:2 head:16",
      "f batch:2 seq:7 heads:2 head:16"},
     7168},
    {"causal=true", // heads of 64 have kernels of their own
     {"f batch:1 seq:14 heads:1 head:64", "f batch:1 seq:14 heads:1 head:64",
      "f batch:1 seq:14 heads:1 head:64"},
     26880},
    {"",
     {"f batch:1 seq:4 heads:2 head:64", "f batch:1 seq:4 kv_heads:1 head:64",
      "f batch:1 seq:4 kv_heads:1 head:64"},
     8192},
    {"causal=true",
     {"f batch:1 part:2.seq:3 heads:6 head:2",
      "f batch:1 part:2.seq:3 kv_heads:3 head:2",
      "f batch:1 part:2.seq:3 kv_heads:3 head:2"},
     1008},
    {"",
     {"f batch:2 seq:3 heads:2 head:3", "f batch:2 kv_seq:6 heads:2 head:3",
      "f batch:2 kv_seq:6 heads:2 head:3"},
     864},
    {"causal=true", // the last queries see all keys
     {"f batch:2 seq:5 heads:2 head:3", "f batch:2 kv_seq:3 heads:2 head:3",
      "f batch:2 kv_seq:3 heads:2 head:3"},
     576},
    {0},
};

static const tt_sample samples_grad[] = {
    {"",
     {"f batch:2 seq:5 heads:3 head:4", "f batch:2 seq:5 heads:3 head:4",
      "f batch:2 seq:5 heads:3 head:4", "f batch:2 seq:5 heads:3 head:4",
      "m batch:2 heads:3 seq:5", "f batch:2 seq:5 heads:3 head:4"},
     6000},
    {"causal=true scale=0.7",
     {"f batch:3 seq:7 heads:4 head:3", "f batch:3 seq:7 kv_heads:2 head:3",
      "f batch:3 seq:7 kv_heads:2 head:3", "f batch:3 seq:7 heads:4 head:3",
      "m batch:3 heads:4 seq:7", "f batch:3 seq:7 heads:4 head:3"},
     10080},
    {"causal=true",
     {"f batch:1 seq:4 heads:6 head:2", "f batch:1 seq:4 kv_heads:1 head:2",
      "f batch:1 seq:4 kv_heads:1 head:2", "f batch:1 seq:4 heads:6 head:2",
      "m batch:1 heads:6 seq:4", "f batch:1 seq:4 heads:6 head:2"},
     1200},
    {"causal=true",
     {"f batch:1 part:2.seq:3 heads:6 head:2",
      "f batch:1 part:2.seq:3 kv_heads:3 head:2",
      "f batch:1 part:2.seq:3 kv_heads:3 head:2",
      "f batch:1 part:2.seq:3 heads:6 head:2", "m batch:1 heads:6 part:2.seq:3",
      "f batch:1 part:2.seq:3 heads:6 head:2"},
     2520},
    {"causal=true",
     {"f batch:2 seq:7 heads:2 head:16", "f batch:2 seq:7 heads:2 head:16",
      "f batch:2 seq:7 heads:2 head:16", "f batch:2 seq:7 heads:2 head:16",
      "m batch:2 heads:2 seq:7", "f batch:2 seq:7 heads:2 head:16"},
     17920},
    {"causal=true", // heads of 64 have kernels of their own
     {"f batch:1 seq:14 heads:2 head:64", "f batch:1 seq:14 heads:2 head:64",
      "f batch:1 seq:14 heads:2 head:64", "f batch:1 seq:14 heads:2 head:64",
      "m batch:1 heads:2 seq:14", "f batch:1 seq:14 heads:2 head:64"},
     134400},
    {"",
     {"f batch:2 seq:7 heads:1 head:64", "f batch:2 seq:7 heads:1 head:64",
      "f batch:2 seq:7 heads:1 head:64", "f batch:2 seq:7 heads:1 head:64",
      "m batch:2 heads:1 seq:7", "f batch:2 seq:7 heads:1 head:64"},
     62720},
    {"",
     {"f batch:2 seq:7 heads:2 head:8", "f batch:2 seq:7 kv_heads:1 head:8",
      "f batch:2 seq:7 kv_heads:1 head:8", "f batch:2 seq:7 heads:2 head:8",
      "m batch:2 heads:2 seq:7", "f batch:2 seq:7 heads:2 head:8"},
     15680},
    {0},
};

const tt_op_def tt_op_attention = {
    .name = "attention",
    .doc = "Scaled dot-product attention.",
    .options = options,
    .params_bytes = sizeof(tt_attention_params),
    .no_grad = 2,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};

const tt_op_def tt_op_attention_grad = {
    .name = "attention_grad",
    .doc = "Gradients of attention's q, k and v.",
    .options = options,
    .params_bytes = sizeof(tt_attention_params),
    .infer = infer_grad,
    .shard = shard_grad,
    .cost = cost_grad,
    .samples = samples_grad,
};
