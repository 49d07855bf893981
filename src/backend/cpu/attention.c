// attention - the kernels around simd/attention, which has the arithmetic.
//
// q, k and v are usually slices of one packed projection. They are read where they lie,
// and their gradients are written to the same places of the projection's gradient, so
// nothing is copied. On a rank that has a part of the heads or of the positions, query
// heads read a run of the key-value heads that are there, each by as many query heads.

#include "backend/cpu/attention.h"

#include "backend/cpu/wrap.h"
#include "base/alloc.h"
#include "ops/nn/attention.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

#include <string.h>

enum { Q, K, V, O, LSE, DO };     // inputs of the gradient; forward: 3
enum { BATCH, SEQ, HEADS, HEAD }; // dims of q, k, v, o

typedef struct state {
    tt_simd_attention_args args; // without addresses
    int64_t first_kv;            // key-value head of the first query head
} state;

bool tt__heads_map(const tt_site *site, int64_t *first_out, int64_t *n_out)
{
    const tt_local *q = &site->in[Q].local, *k = &site->in[K].local;
    const int64_t heads = tt_shape_dim(&q->shape, HEADS);
    const int64_t group =
        tt_position_extent(q, HEADS) / tt_position_extent(k, HEADS);
    const int64_t first =
        tt_position_local(k, HEADS, tt_position_global(q, HEADS, 0) / group);
    const int64_t last = tt_position_local(
        k, HEADS, tt_position_global(q, HEADS, heads - 1) / group);
    if (first < 0 || last < first)
        return false;
    const int64_t n = last - first + 1;
    for (int64_t h = 1; h < heads; h++)
        if (tt_position_local(k, HEADS,
                              tt_position_global(q, HEADS, h) / group) !=
            first + h * n / heads)
            return false;
    *first_out = first;
    *n_out = n;
    return heads % n == 0;
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    int64_t first, n;
    tt__site_runs r;
    const tt_attention_params *p = site->params;
    return tt__site_has_types(site, "ttttft", p->wide ? "ff" : "tf") &&
           tt_operand_dim(&site->in[Q], HEAD) <= TT__ATTENTION_MAX_HEAD &&
           tt__are_runs(&site->in[Q].local, SEQ, &r) &&
           tt__are_runs(&site->in[K].local, SEQ, &r) &&
           tt__heads_map(site, &first, &n);
}

static bool can_grad(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    int64_t first, n;
    tt__site_runs r;
    return tt__site_has_types(site, "ttttft", "t") &&
           tt_operand_dim(&site->in[Q], HEAD) <= TT__ATTENTION_MAX_HEAD &&
           tt__are_runs(&site->in[Q].local, SEQ, &r) &&
           tt__are_runs(&site->in[K].local, SEQ, &r) &&
           tt__heads_map(site, &first, &n);
}

void tt__heads_fit(tt_operand *o)
{
    if (o->local.shape.ndim == 4 && o->stride[HEAD] != 1)
        tt_operand_set_dense(o);
}

tt_simd_heads tt__heads_cut(const tt_operand *o, const void *base,
                            int64_t first)
{
    const char *data = (const char *)base +
                       first * o->stride[HEADS] * tt_dtype_bytes(o->dtype);
    return (tt_simd_heads){.data = (void *)(uintptr_t)data,
                           .batch = o->stride[BATCH],
                           .head = o->stride[HEADS],
                           .row = o->stride[SEQ]};
}

static state *make_state(const tt_backend *backend, const tt_site *site)
{
    const tt_attention_params *p = site->params;
    const tt_operand *q = &site->in[Q], *k = &site->in[K];
    tt__site_runs rq, rk;
    state *s = tt_alloc(sizeof(*s));
    if (s == NULL)
        return NULL;
    s->args = (tt_simd_attention_args){
        .type = tt__simd_type_of(q->dtype),
        .is_wide = p->wide,
        .is_causal = p->causal,
        .scale = (float)tt_attention_scale(p, tt_operand_dim(q, HEAD)),
        .n_batch = tt_operand_dim(q, BATCH),
        .q_heads = tt_operand_dim(q, HEADS),
        .q_len = tt_operand_dim(q, SEQ),
        .k_len = tt_operand_dim(k, SEQ),
        .head_dim = tt_operand_dim(q, HEAD),
        .threads = backend->options.n_threads,
    };
    (void)tt__heads_map(site, &s->first_kv, &s->args.kv_heads);
    (void)tt__are_runs(&q->local, SEQ, &rq);
    (void)tt__are_runs(&k->local, SEQ, &rk);
    s->args.q_offset = rq.first;
    s->args.q_turn = rq.turn;
    s->args.q_gap = rq.gap;
    s->args.k_offset = rk.first;
    s->args.k_turn = rk.turn;
    s->args.k_gap = rk.gap;
    return s;
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    for (int i = 0; i < site->n_in; i++)
        tt__heads_fit(&site->in[i]);
    for (int i = 0; i < site->n_out; i++)
        tt__heads_fit(&site->out[i]);
    state *s = make_state(backend, site);
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "attention: no memory for a kernel");
    const tt_simd_attention *simd = tt_simd_get()->attention;
    prepared_out->state = s;
    prepared_out->scratch_bytes = site->op == &tt_op_attention
                                      ? simd->forward_scratch_bytes(&s->args)
                                      : simd->backward_scratch_bytes(&s->args);
    return TT_OK;
}

static tt_simd_attention_args bind(const state *s, const tt_site *site,
                                   const tt_args *args)
{
    tt_simd_attention_args a = s->args;
    a.q = tt__heads_cut(&site->in[Q], args->in[Q], 0);
    a.k = tt__heads_cut(&site->in[K], args->in[K], s->first_kv);
    a.v = tt__heads_cut(&site->in[V], args->in[V], s->first_kv);
    a.scratch = args->scratch;
    return a;
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    tt_simd_attention_args a = bind(kernel_state, site, args);
    a.o = tt__heads_cut(&site->out[0], args->out[0], 0);
    a.lse = args->out[1];
    tt_simd_get()->attention->forward(&a);
    return TT_OK;
}

// Key-value heads that no query head of this rank reads have a gradient of zero.
static void clear(const tt_operand *o, void *base)
{
    const int64_t row = tt_operand_dim(o, HEAD) * tt_dtype_bytes(o->dtype);
    for (int64_t b = 0; b < tt_operand_dim(o, BATCH); b++)
        for (int64_t t = 0; t < tt_operand_dim(o, SEQ); t++)
            for (int64_t h = 0; h < tt_operand_dim(o, HEADS); h++)
                memset((char *)base +
                           (b * o->stride[BATCH] + t * o->stride[SEQ] +
                            h * o->stride[HEADS]) *
                               tt_dtype_bytes(o->dtype),
                       0, (size_t)row);
}

static tt_status run_grad(void *kernel_state, const tt_site *site,
                          const tt_args *args)
{
    const state *s = kernel_state;
    tt_simd_attention_args a = bind(s, site, args);
    a.o = tt__heads_cut(&site->in[O], args->in[O], 0);
    a.lse = (float *)(uintptr_t)args->in[LSE];
    a.d_o = tt__heads_cut(&site->in[DO], args->in[DO], 0);
    a.d_q = tt__heads_cut(&site->out[Q], args->out[Q], 0);
    a.d_k = tt__heads_cut(&site->out[K], args->out[K], s->first_kv);
    a.d_v = tt__heads_cut(&site->out[V], args->out[V], s->first_kv);
    for (int i = K; i <= V; i++)
        if (a.kv_heads < tt_operand_dim(&site->out[i], HEADS))
            clear(&site->out[i], args->out[i]);
    tt_simd_get()->attention->backward(&a);
    return TT_OK;
}

static bool can_merge(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "tftf", "tf");
}

static tt_status run_merge(void *kernel_state, const tt_site *site,
                           const tt_args *args)
{
    (void)kernel_state;
    const tt_operand *o = &site->in[0];
    const tt_simd_merge_args a = {
        .type = tt__simd_type_of(o->dtype),
        .n_batch = tt_operand_dim(o, BATCH),
        .length = tt_operand_dim(o, SEQ),
        .heads = tt_operand_dim(o, HEADS),
        .head_dim = tt_operand_dim(o, HEAD),
        .o1 = args->in[0],
        .lse1 = args->in[1],
        .o2 = args->in[2],
        .lse2 = args->in[3],
        .o = args->out[0],
        .lse = args->out[1],
    };
    tt_simd_get()->merge->run(&a);
    return TT_OK;
}

const tt_kernel_def tt__cpu_attention_kernels[] = {
    {TT_KERNEL(cpu, attention), .strided_in = 1U << Q | 1U << K | 1U << V,
     .strided_out = 1, .can = can, .prepare = prepare, .run = run},
    {TT_KERNEL(cpu, attention_grad),
     .strided_in = 1U << Q | 1U << K | 1U << V | 1U << O | 1U << DO,
     .strided_out = 1U << Q | 1U << K | 1U << V, .can = can_grad,
     .prepare = prepare, .run = run_grad},
    {TT_KERNEL(cpu, attention_merge), .in_place = true, .can = can_merge,
     .run = run_merge},
    {0},
};
