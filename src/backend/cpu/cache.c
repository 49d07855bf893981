// cache - the key-value cache of a decoder: writing the newest keys and values, and
// attention over all of them. The many queries of a prompt go to the kernel of
// training, which packs the keys once for all of them. The one query of a decoding step
// goes to a kernel that reads the keys where they lie.

#include "ops/nn/cache.h"

#include "backend/cpu/attention.h"
#include "backend/cpu/wrap.h"
#include "base/alloc.h"
#include "ops/nn/attention.h"
#include "ops/ops.h"

#include <string.h>

enum { Q, K, V, POSITION };
enum { BATCH, SEQ, HEADS, HEAD };
enum { FEW = 8 }; // queries; from here on packing the keys pays

// ---- cache_write ---------------------------------------------------------

static bool can_write(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ttI", "t");
}

// The position, when n entries from there on are within the cache.
static tt_status find_position(const tt_site *site, const void *position,
                               int64_t n, int64_t context, int64_t *at_out)
{
    const int64_t at = *(const int64_t *)position;
    if (at < 0 || at > context - n)
        return tt_fail(TT_ERR_ARG,
                       "%s: %lld entries from position %lld on are not in "
                       "0..%lld",
                       site->origin, (long long)n, (long long)at,
                       (long long)context - 1);
    *at_out = at;
    return TT_OK;
}

// Entries of new are runs of heads that may have gaps between them, when they are
// a part of a packed projection.
static tt_status prepare_write(tt_backend *backend, tt_site *site,
                               tt_prepared *prepared_out)
{
    (void)backend, (void)prepared_out;
    tt_operand *new = &site->in[1];
    int64_t run = 1;
    for (int d = new->local.shape.ndim - 1; d > SEQ; d--) {
        if (tt_operand_dim(new, d) > 1 && new->stride[d] != run) {
            tt_operand_set_dense(new);
            break;
        }
        run *= tt_operand_dim(new, d);
    }
    return TT_OK;
}

static tt_status run_write(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    const tt_operand *cache = &site->in[0], *new = &site->in[1];
    const int64_t batch = tt_operand_dim(cache, BATCH);
    const int64_t context = tt_operand_dim(cache, SEQ);
    const int64_t n = tt_operand_dim(new, SEQ);
    const int64_t bytes = tt_dtype_bytes(cache->dtype);
    const int64_t row = tt_operand_count(new) / (batch * n) * bytes;
    int64_t at = 0;
    TT_TRY(find_position(site, args->in[2], n, context, &at));
    if (args->out[0] != args->in[0])
        memcpy(args->out[0], args->in[0], (size_t)(batch * context * row));
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < n; i++)
            memcpy((char *)args->out[0] + (b * context + at + i) * row,
                   (const char *)args->in[1] +
                       (b * new->stride[BATCH] + i *new->stride[SEQ]) * bytes,
                   (size_t)row);
    return TT_OK;
}

// ---- attention_cached ----------------------------------------------------

typedef struct state {
    tt_simd_attention_args args; // without addresses
    int64_t first_kv;
    bool has_few;
} state;

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    int64_t first, n;
    return tt__site_has_types(site, "tttI", "t") &&
           tt__heads_map(site, &first, &n);
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    const tt_simd_attention *simd = tt_simd_get()->attention;
    const tt_operand *q = &site->in[Q];
    const int64_t head = tt_operand_dim(q, HEAD);
    for (int i = Q; i <= V; i++)
        tt__heads_fit(&site->in[i]);
    tt__heads_fit(&site->out[0]);
    state *s = tt_alloc(sizeof(*s));
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "attention_cached: no memory");
    s->args = (tt_simd_attention_args){
        .type = tt__simd_type_of(q->dtype),
        .is_causal = true,
        .scale =
            (float)tt_attention_scale(&(tt_attention_params){.scale = 0}, head),
        .n_batch = tt_operand_dim(q, BATCH),
        .q_heads = tt_operand_dim(q, HEADS),
        .q_len = tt_operand_dim(q, SEQ),
        .k_len = tt_operand_dim(&site->in[K], SEQ),
        .head_dim = head,
        .threads = backend->options.n_threads,
    };
    (void)tt__heads_map(site, &s->first_kv, &s->args.kv_heads);
    s->has_few = s->args.q_len < FEW || head > TT__ATTENTION_MAX_HEAD;
    prepared_out->state = s;
    prepared_out->scratch_bytes = s->has_few
                                      ? simd->decode_scratch_bytes(&s->args)
                                      : simd->forward_scratch_bytes(&s->args);
    return TT_OK;
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    const state *s = kernel_state;
    tt_simd_attention_args a = s->args;
    TT_TRY(
        find_position(site, args->in[POSITION], a.q_len, a.k_len, &a.q_offset));
    a.q = tt__heads_cut(&site->in[Q], args->in[Q], 0);
    a.k = tt__heads_cut(&site->in[K], args->in[K], s->first_kv);
    a.v = tt__heads_cut(&site->in[V], args->in[V], s->first_kv);
    a.o = tt__heads_cut(&site->out[0], args->out[0], 0);
    a.scratch = args->scratch;
    if (s->has_few) {
        tt_simd_get()->attention->decode(&a);
        return TT_OK;
    }
    a.k_len = a.q_offset + a.q_len;
    tt_simd_get()->attention->forward(&a);
    return TT_OK;
}

const tt_kernel_def tt__cpu_cache_kernels[] = {
    {TT_KERNEL(cpu, attention_cached),
     .strided_in = 1U << Q | 1U << K | 1U << V, .strided_out = 1, .can = can,
     .prepare = prepare, .run = run},
    {TT_KERNEL(cpu, cache_write), .strided_in = 2, .can = can_write,
     .prepare = prepare_write, .run = run_write},
    {0},
};
