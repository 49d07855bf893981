// cached - decoding with a key-value cache, and attention_merge. What bounds them:
// dev/attention/cached.cu.

#include "backend/cpu/attention.h"
#include "backend/cuda/cuda.h"
#include "ops/nn/attention.h"
#include "ops/nn/cache.h"
#include "ops/ops.h"

enum { BATCH, SEQ, HEADS, HEAD };
enum { MOST_HEAD = 512 }; // of the kernel's shared memory

static bool can_write(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ssI", "s");
}

// A row is all that lies at one position.
static tt_status run_write(void *state, const tt_site *site,
                           const tt_args *args)
{
    const tt_operand *cache = &site->in[0];
    const tt__cuda_device *d = tt__cuda_at(state);
    const int64_t batch = tt_operand_dim(cache, BATCH);
    const int64_t context = tt_operand_dim(cache, SEQ);
    const int64_t count = tt_operand_count(cache);
    const tt_cuda_cached_args a = {.type = cache->dtype,
                                   .batch = batch,
                                   .n = tt_operand_dim(&site->in[1], SEQ),
                                   .heads = 1,
                                   .head = count / (batch * context),
                                   .context = context,
                                   .v = args->in[1],
                                   .position = args->in[2],
                                   .o = args->out[0]};
    const tt_cuda_copy_args whole = {.ndim = 1,
                                     .dim = {count},
                                     .to_stride = {1},
                                     .from_stride = {1},
                                     .to_type = cache->dtype,
                                     .from_type = cache->dtype,
                                     .to = args->out[0],
                                     .from = args->in[0]};
    if (args->out[0] != args->in[0])
        TT_TRY(tt__cuda_status(d->api->copy(d->cuda, &whole)));
    return TT__CUDA(state, cache_write, &a);
}

// All key-value heads of the queries' heads are here, in order.
static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    int64_t first, n;
    return tt__site_has_types(site, "sssI", "s") &&
           tt_operand_dim(&site->in[0], HEAD) <= MOST_HEAD &&
           tt__heads_map(site, &first, &n) && first == 0 &&
           n == tt_operand_dim(&site->in[1], HEADS);
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    const tt_operand *q = &site->in[0], *k = &site->in[1];
    const int64_t head = tt_operand_dim(q, HEAD);
    const tt_attention_params plain = {0};
    const tt_cuda_cached_args a = {.type = q->dtype,
                                   .batch = tt_operand_dim(q, BATCH),
                                   .n = tt_operand_dim(q, SEQ),
                                   .heads = tt_operand_dim(q, HEADS),
                                   .kv_heads = tt_operand_dim(k, HEADS),
                                   .head = head,
                                   .context = tt_operand_dim(k, SEQ),
                                   .scale = tt_attention_scale(&plain, head),
                                   .q = args->in[0],
                                   .k = args->in[1],
                                   .v = args->in[2],
                                   .position = args->in[3],
                                   .o = args->out[0]};
    return TT__CUDA(state, attention_cached, &a);
}

static bool can_merge(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_is_plain(site);
}

static tt_cuda_any input(const tt_site *site, const tt_args *args, int i)
{
    return (tt_cuda_any){site->in[i].dtype, (void *)(uintptr_t)args->in[i]};
}

static tt_status run_merge(void *state, const tt_site *site,
                           const tt_args *args)
{
    const tt_operand *o = &site->in[0];
    const tt_cuda_merge_args a = {
        .batch = tt_operand_dim(o, BATCH),
        .seq = tt_operand_dim(o, SEQ),
        .heads = tt_operand_dim(o, HEADS),
        .head = tt_operand_dim(o, HEAD),
        .o1 = input(site, args, 0),
        .lse1 = input(site, args, 1),
        .o2 = input(site, args, 2),
        .lse2 = input(site, args, 3),
        .o = {site->out[0].dtype, args->out[0]},
        .lse = {site->out[1].dtype, args->out[1]},
    };
    return TT__CUDA(state, attention_merge, &a);
}

const tt_kernel_def tt__cuda_cached_kernels[] = {
    {TT__CUDA_KERNEL(cache_write), .in_place = true, .can = can_write,
     .run = run_write},
    {TT__CUDA_KERNEL(attention_cached), .can = can, .run = run},
    {TT__CUDA_KERNEL(attention_merge), .can = can_merge, .run = run_merge},
    {0},
};
