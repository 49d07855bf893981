// cache - reference kernels of cache_write and attention_cached. A decoding step
// changes nothing but the position, a scalar input, so it is checked at run time.

#include "ops/nn/cache.h"

#include "backend/ref/ref.h"
#include "ops/nn/attention.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

enum { SEQ = 1, HEADS, HEAD };

// The position, when n entries from there on are within the cache.
static tt_status load_position(const tt_site *site, const tt_args *args, int i,
                               int64_t n, int64_t context, int64_t *at_out)
{
    const int64_t at = *(const int64_t *)args->in[i];
    if (at < 0 || at > context - n)
        return tt_fail(TT_ERR_ARG,
                       "%s: %lld entries from position %lld on are not in "
                       "0..%lld",
                       site->origin, (long long)n, (long long)at,
                       (long long)context - 1);
    *at_out = at;
    return TT_OK;
}

static tt_status run_write(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    const tt_operand *cache = &site->in[0], *new = &site->in[1];
    const int64_t context = tt_operand_dim(cache, SEQ);
    const int64_t n = tt_operand_dim(new, SEQ);
    const int64_t batch = tt_operand_dim(cache, 0);
    const int64_t row = tt_operand_count(cache) / (batch * context) *
                        tt_dtype_bytes(cache->dtype);
    int64_t at = 0;
    TT_TRY(load_position(site, args, 2, n, context, &at));
    if (args->out[0] != args->in[0])
        memcpy(args->out[0], args->in[0], (size_t)(batch * context * row));
    for (int64_t b = 0; b < batch; b++)
        memcpy((char *)args->out[0] + (b * context + at) * row,
               (const char *)args->in[1] + b * n * row, (size_t)(n * row));
    return TT_OK;
}

typedef struct query {
    const tt_site *site;
    const tt_args *args;
    int64_t q, k;   // first element of the query, of key 0
    int64_t step;   // from key to key
    int64_t n_keys; // visible
    double *score;
} query;

static double load(const query *x, int i, int64_t at)
{
    return tt_dtype_load(x->site->in[i].dtype, x->args->in[i], at);
}

static void attend(const query *x)
{
    const int64_t head = tt_operand_dim(&x->site->in[0], HEAD);
    const double scale =
        tt_attention_scale(&(tt_attention_params){.scale = 0}, head);
    double max = -HUGE_VAL, sum = 0;
    for (int64_t j = 0; j < x->n_keys; j++) {
        double dot = 0;
        for (int64_t i = 0; i < head; i++)
            dot += load(x, 0, x->q + i) * load(x, 1, x->k + j * x->step + i);
        x->score[j] = scale * dot;
        max = fmax(max, x->score[j]);
    }
    for (int64_t j = 0; j < x->n_keys; j++) {
        x->score[j] = exp(x->score[j] - max);
        sum += x->score[j];
    }
    for (int64_t i = 0; i < head; i++) {
        double o = 0;
        for (int64_t j = 0; j < x->n_keys; j++)
            o += x->score[j] * load(x, 2, x->k + j * x->step + i);
        tt_dtype_store(x->site->out[0].dtype, x->args->out[0], x->q + i,
                       o / sum);
    }
}

static tt_status run_attention(void *state, const tt_site *site,
                               const tt_args *args)
{
    (void)state;
    const tt_local *q = &site->in[0].local, *k = &site->in[1].local;
    const int64_t n = tt_shape_dim(&q->shape, SEQ);
    const int64_t heads = tt_shape_dim(&q->shape, HEADS);
    const int64_t head = tt_shape_dim(&q->shape, HEAD);
    const int64_t context = tt_shape_dim(&k->shape, SEQ);
    const int64_t group =
        tt_position_extent(q, HEADS) / tt_position_extent(k, HEADS);
    query x = {.site = site,
               .args = args,
               .step = tt_shape_dim(&k->shape, HEADS) * head,
               .score = args->scratch};
    int64_t at = 0;
    TT_TRY(load_position(site, args, 3, n, context, &at));
    for (int64_t r = 0; r < tt_shape_count(&q->shape) / head; r++) {
        const int64_t h = r % heads, s = r / heads % n, b = r / heads / n;
        const int64_t kv = tt_position_local(
            k, HEADS, tt_position_global(q, HEADS, h) / group);
        if (kv < 0)
            return tt_fail(TT_ERR_STATE,
                           "%s: a query head's key-value head is elsewhere",
                           site->origin);
        x.q = r * head;
        x.k = b * context * x.step + kv * head;
        x.n_keys = at + s + 1;
        attend(&x);
    }
    return TT_OK;
}

static tt_status prepare_attention(tt_backend *backend, tt_site *site,
                                   tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes =
        tt_operand_dim(&site->in[1], SEQ) * (int64_t)sizeof(double);
    return TT_OK;
}

const tt_kernel_def tt__ref_cache_kernels[] = {
    {TT_KERNEL(ref, attention_cached), .prepare = prepare_attention,
     .run = run_attention},
    {TT_KERNEL(ref, cache_write), .run = run_write},
    {0},
};
