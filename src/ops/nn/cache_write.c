// cache_write - puts the newest entries of a sequence into a cache of all of them.
// Where the result replaces the cache (tt_update) only these entries are moved.
//
//   flops   none
//   shard   every dim but the sequence

#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/nn/cache.h"
#include "ops/ops.h"
#include "ops/shape/rows.h"

enum { CACHE, NEW, POSITION };
enum { SEQ = 1 };

static tt_status infer(tt_op_io *io)
{
    const char *op = "cache_write";
    TT_TRY(tt_infer_inputs(io, op, 3, 3));
    TT_TRY(tt_infer_float(io, op, CACHE));
    TT_TRY(tt__want_dtype(io, NEW, io->in[CACHE].dtype, op));
    TT_TRY(tt_infer_scalar(io, op, POSITION, TT_I64));
    const tt_shape *cache = &io->in[CACHE].shape, *new = &io->in[NEW].shape;
    bool fits = cache->ndim == new->ndim && cache->ndim >= 2;
    for (int d = 0; fits && d < cache->ndim; d++)
        fits = d == SEQ ? tt_shape_dim(new, d) <= tt_shape_dim(cache, d)
                        : tt_shape_dim(new, d) == tt_shape_dim(cache, d);
    if (!fits)
        return tt_infer_fail_shapes(
            op, "what is written must be [batch, n, ..] of the cache", new,
            cache);
    tt_infer_add(io, io->in[CACHE].dtype, cache);
    return TT_OK;
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    const tt_shape *cache = &io->in[CACHE].shape, *new = &io->in[NEW].shape;
    for (int d = 0; d < cache->ndim; d++) {
        // The factors must be equal, so that equal blocks of both have the same
        // entries.
        bool is_same = cache->first[d + 1] - cache->first[d] ==
                       new->first[d + 1] - new->first[d];
        for (int f = cache->first[d]; is_same && f < cache->first[d + 1]; f++)
            is_same = cache->factor[f].size ==
                      new->factor[new->first[d] + f - cache->first[d]].size;
        if (d != SEQ && is_same)
            tt__shard_dim(io, axis_size, d,
                          &(tt__split){CACHE, "==.", "=", NULL}, sigs);
    }
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_move(io, 0, cost_out); // in place it is much less
}

tt_val tt_cache_write(tt_builder *b, tt_val cache, tt_val fresh,
                      tt_val position)
{
    return tt_call(b, &tt_op_cache_write, NULL,
                   (tt_val[]){cache, fresh, position}, 3, NULL);
}

static const tt_sample samples[] = {
    {"",
     {"f batch:2 context:7 kv_heads:2 head:4",
      "f batch:2 new:1 kv_heads:2 head:4", "I=5"}},
    {"",
     {"f batch:3 context:9 kv_heads:4 head:3",
      "f batch:3 new:4 kv_heads:4 head:3", "I=5"}},
    {"", {"f batch:1 context:4 wide:6", "f batch:1 new:4 wide:6", "I=0"}},
    {0},
};

const tt_op_def tt_op_cache_write = {
    .name = "cache_write",
    .doc = "A cache with the entries from a position on replaced.",
    .infer = infer,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};
