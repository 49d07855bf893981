// attention_ring - attention over a sequence that is split over p ranks (context
// parallelism). Queries stay; keys and values go round the ring, so no rank ever holds
// all of them.
//
//   step 0     rank 0: K0,V0     rank 1: K1,V1     rank 2: K2,V2
//   step 1     rank 0: K2,V2     rank 1: K0,V0     rank 2: K1,V1
//   step 2     rank 0: K1,V1     rank 1: K2,V2     rank 2: K0,V0
//
//   forward    at step s a rank attends to the block it has, from rank r - s. The
// block's
//              result is merged with the sum so far: o and lse of two sets of keys give
//              those of both (attention_merge). The next block is sent before this one
//              is computed, so that communication overlaps with computation
//   backward   dq adds up at home. dk and dv travel with their block and collect terms
//              on every rank; after p shifts they are home again
//
//   wire       blocks sent per rank: forward 2 (p-1), backward 2 (p-1) + 2 p
//   source     Liu et al. 2023 (Ring Attention)
//
// There is no ring kernel. The expands below emit shift, attention and attention_merge,
// so the plan overlaps, orders and places them like any other nodes. Sums over blocks
// are kept in the wide type and rounded once, at the end.

#include "ops/comm/comm.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/attention.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "ops/shape/rows.h"

enum { O1, LSE1, O2, LSE2 };

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "attention_merge", 4, 4));
    TT_TRY(tt_infer_float(io, "attention_merge", O1));
    TT_TRY(tt_infer_same_dims(io, "attention_merge", O1, O2));
    TT_TRY(tt_infer_same_dims(io, "attention_merge", LSE1, LSE2));
    const tt_shape *o = &io->in[O1].shape, *lse = &io->in[LSE1].shape;
    if (o->ndim != 4 || lse->ndim != 3 ||
        tt_shape_dim(o, 0) != tt_shape_dim(lse, 0) ||
        tt_shape_dim(o, 2) != tt_shape_dim(lse, 1) ||
        tt_shape_dim(o, 1) != tt_shape_dim(lse, 2))
        return tt_fail(TT_ERR_ARG,
                       "attention_merge: needs o [batch, seq, heads, head] and "
                       "lse [batch, heads, seq]");
    io->n_out = 2;
    for (int i = 0; i < 2; i++) {
        io->out[i].dtype = io->in[i].dtype;
        io->out[i].shape = io->in[i].shape;
    }
    return TT_OK;
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_dim(io, axis_size, 0, &(tt__split){O1, "0000", "00", NULL}, sigs);
    tt__shard_dim(io, axis_size, 1, &(tt__split){O1, "1212", "12", NULL}, sigs);
    tt__shard_dim(io, axis_size, 2, &(tt__split){O1, "2121", "21", NULL}, sigs);
}

// What the expands need for every block.
typedef struct ring {
    tt_builder *b;
    int axis, size;
    const void *params;
    tt_val q; // along other axes, values are placed as q is
} ring;

static ring ring_of(tt_builder *b, const tt_node *node, int axis, tt_val q)
{
    return (ring){b, axis, b->graph->mesh.axis[axis].size, node->params, q};
}

// To the master type (f32 for 16 bits), in which sums over blocks are kept.
static tt_val widen(const ring *r, tt_val x)
{
    const tt_val y =
        tt_cast(r->b, x, tt_dtype_master(tt_type_of(r->b, x)->dtype));
    tt_place_as(r->b, y, r->axis, tt_type_of(r->b, x)->place[r->axis], x);
    return y;
}

static tt_val narrow(const ring *r, tt_val x, tt_dtype dtype)
{
    const tt_val y = tt_cast(r->b, x, dtype);
    tt_place_as(r->b, y, r->axis, tt_type_of(r->b, x)->place[r->axis], x);
    return y;
}

static tt_val add(const ring *r, tt_val x, tt_val y)
{
    const tt_val sum =
        tt_call(r->b, &tt_op_add, NULL, (tt_val[]){x, y}, 2, NULL);
    tt_place_as(r->b, sum, r->axis, tt_type_of(r->b, x)->place[r->axis], x);
    return sum;
}

static void block(const ring *r, const tt_sig *sig, const tt_val kv[2],
                  tt_val out[2])
{
    tt_val made[TT_MAX_OUT];
    tt_call(r->b, &tt_op_attention, r->params, (tt_val[]){r->q, kv[0], kv[1]},
            3, made);
    for (int i = 0; i < 2; i++) {
        tt_place_as(r->b, made[i], r->axis, sig->out[i], r->q);
        out[i] = made[i];
    }
}

static void merge(const ring *r, const tt_sig *sig, tt_val sum[2],
                  const tt_val next[2])
{
    tt_val made[TT_MAX_OUT];
    tt_call(r->b, &tt_op_attention_merge, NULL,
            (tt_val[]){sum[0], sum[1], next[0], next[1]}, 4, made);
    for (int i = 0; i < 2; i++) {
        tt_place_as(r->b, made[i], r->axis, sig->out[i], r->q);
        sum[i] = made[i];
    }
}

tt_status tt__attention_ring(tt_builder *b, const tt_node *node,
                             const tt_sig *sig, int axis, const tt_val *in,
                             tt_val *out)
{
    const ring r = ring_of(b, node, axis, in[0]);
    const tt_dtype dtype = tt_type_of(b, in[0])->dtype;
    tt_val kv[2] = {in[1], in[2]}, sum[2] = {TT_NONE, TT_NONE};
    for (int s = 0; s < r.size; s++) {
        // Sent first, so that it can travel while this block is computed.
        tt_val ahead[2] = {kv[0], kv[1]};
        for (int i = 0; s + 1 < r.size && i < 2; i++)
            ahead[i] = tt_shift(b, kv[i], axis, 1);
        tt_val next[2];
        block(&r, sig, kv, next);
        if (s == 0) {
            sum[0] = r.size > 1 ? widen(&r, next[0]) : next[0];
            sum[1] = next[1];
        } else {
            merge(&r, sig, sum, next);
        }
        kv[0] = ahead[0];
        kv[1] = ahead[1];
    }
    out[0] = narrow(&r, sum[0], dtype);
    out[1] = sum[1];
    return tt_builder_status(b);
}

// Where another axis splits the queries' heads but not the keys', each rank has
// the term of its own heads.
static void place_terms(const ring *r, tt_val dk, tt_val k)
{
    for (int a = 0; a < r->b->graph->mesh.n_axes; a++)
        if (a != r->axis && tt_type_of(r->b, r->q)->place[a].kind == TT_SPLIT &&
            tt_type_of(r->b, k)->place[a].kind == TT_REPLICATE)
            tt_place_set(r->b, dk, a, tt_place_partial(TT_SUM));
}

// The gradient's terms of the block that this rank has now, widened.
static void block_grad(const ring *r, const tt_val *in, const tt_val kv[2],
                       tt_val out[3])
{
    tt_builder *b = r->b;
    tt_val made[TT_MAX_OUT];
    tt_call(b, &tt_op_attention_grad, r->params,
            (tt_val[]){in[0], kv[0], kv[1], in[3], in[4], in[5]}, 6, made);
    for (int i = 0; i < 3; i++) {
        const tt_val like = i == 0 ? in[0] : kv[i - 1];
        tt_place_as(b, made[i], r->axis, tt_type_of(b, like)->place[r->axis],
                    like);
        if (i > 0)
            place_terms(r, made[i], like);
        out[i] = r->size > 1 ? widen(r, made[i]) : made[i];
    }
}

tt_status tt__attention_ring_grad(tt_builder *b, const tt_node *node,
                                  const tt_sig *sig, int axis, const tt_val *in,
                                  tt_val *out)
{
    (void)sig; // all are split along seq, as the inputs
    const ring r = ring_of(b, node, axis, in[0]);
    const tt_dtype dtype = tt_type_of(b, in[0])->dtype;
    tt_val kv[2] = {in[1], in[2]};
    tt_val sum[3] = {TT_NONE, TT_NONE, TT_NONE};
    for (int s = 0; s < r.size; s++) {
        tt_val ahead[2] = {kv[0], kv[1]};
        for (int i = 0; s + 1 < r.size && i < 2; i++)
            ahead[i] = tt_shift(b, kv[i], axis, 1);
        tt_val term[3];
        block_grad(&r, in, kv, term);
        for (int i = 0; i < 3; i++) {
            sum[i] = s == 0 ? term[i] : add(&r, sum[i], term[i]);
            if (i > 0 && r.size > 1)
                sum[i] = tt_shift(b, sum[i], axis, 1);
        }
        kv[0] = ahead[0];
        kv[1] = ahead[1];
    }
    for (int i = 0; i < 3; i++)
        out[i] = narrow(&r, sum[i], dtype);
    return tt_builder_status(b);
}

static const tt_sample samples[] = {
    {"",
     {"f batch:2 seq:5 heads:3 head:4", "m batch:2 heads:3 seq:5",
      "f batch:2 seq:5 heads:3 head:4", "m batch:2 heads:3 seq:5"},
     360},
    {0},
};

const tt_op_def tt_op_attention_merge = {
    .name = "attention_merge",
    .doc = "Attention to two sets of keys, from attention to each.",
    .infer = infer,
    .shard = shard,
    .cost = tt_cost_each,
    .flops_each = 3,
    .samples = samples,
};
