// attention_cached - attention of the newest queries over cached keys and values.
//
//   o(i) = softmax over j <= position + i of (q(i) k(j) / sqrt(head)) v(j)
//
//   flops   4 head per visible pair and head, counted for a full cache
//   shard   batch; heads, as attention

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/attention.h"
#include "ops/nn/cache.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

enum { Q, K, V, POSITION };
enum { BATCH, SEQ, HEADS, HEAD };

static tt_status infer(tt_op_io *io)
{
    const char *op = "attention_cached";
    TT_TRY(tt_infer_inputs(io, op, 4, 4));
    TT_TRY(tt__attention_check(io, op));
    TT_TRY(tt_infer_scalar(io, op, POSITION, TT_I64));
    const tt_shape *q = &io->in[Q].shape, *k = &io->in[K].shape;
    if (tt_shape_dim(q, SEQ) > tt_shape_dim(k, SEQ))
        return tt_infer_fail_shapes(op, "the cache is shorter than the queries",
                                    q, k);
    tt_infer_add(io, io->in[Q].dtype, q);
    return TT_OK;
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt__shard_dim(io, axis_size, BATCH, &(tt__split){Q, "000.", "0", NULL},
                  sigs);
    tt_sig *sig = tt__attention_shard_heads(io, axis_size, sigs);
    if (sig != NULL)
        sig->in[POSITION] = tt_place_replicate();
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    const tt_shape *q = &io->in[Q].shape;
    const double n = (double)tt_shape_dim(q, SEQ);
    const double keys = (double)tt_shape_dim(&io->in[K].shape, SEQ);
    const double pairs = n * keys - n * (n - 1) / 2;
    tt_cost_reduction(io, 0, 4 * pairs * (double)tt_shape_count(q) / n, keys,
                      cost_out);
}

tt_val tt_attention_cached(tt_builder *b, const tt_val qkv[3], tt_val position)
{
    return tt_call(b, &tt_op_attention_cached, NULL,
                   (tt_val[]){qkv[0], qkv[1], qkv[2], position}, 4, NULL);
}

static const tt_sample samples[] = {
    {"",
     {"f batch:2 new:1 heads:3 head:4", "f batch:2 context:6 heads:3 head:4",
      "f batch:2 context:6 heads:3 head:4", "I=4"},
     576},
    {"",
     {"f batch:1 new:3 heads:4 head:5", "f batch:1 context:7 kv_heads:2 head:5",
      "f batch:1 context:7 kv_heads:2 head:5", "I=2"},
     1440},
    {"",
     {"f batch:3 new:4 heads:6 head:2", "f batch:3 context:4 kv_heads:1 head:2",
      "f batch:3 context:4 kv_heads:1 head:2", "I=0"},
     1440},
    {"",
     {"f batch:1 new:9 heads:2 head:4", "f batch:1 context:30 heads:2 head:4",
      "f batch:1 context:30 heads:2 head:4", "I=17"},
     7488},
    {0},
};

const tt_op_def tt_op_attention_cached = {
    .name = "attention_cached",
    .doc = "Attention of the newest queries over cached keys and values.",
    .infer = infer,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};
