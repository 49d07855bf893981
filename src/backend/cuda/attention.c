// attention - reads q, k, v and writes their gradients where they lie, by strides:
// parts of a packed qkv projection need no copy.
//
// Whole sequences of 16 bits go to fused kernels (flash attention), bound by the tensor
// cores: our own for heads of 64 on compute capability 9.0 (dev/attention), else
// cuDNN's. Every other site goes to plain kernels.

#include "ops/nn/attention.h"

#include "backend/cpu/attention.h"
#include "backend/cuda/cuda.h"
#include "base/alloc.h"
#include "ops/ops.h"

enum { Q, K, V, O, LSE, DO };     // inputs of the gradient; forward: 3
enum { BATCH, SEQ, HEADS, HEAD }; // dims of q, k, v, o
enum { MAX_HEAD = 256 };

typedef struct state {
    const tt__cuda_device *device;
    tt_cuda_attention_args args; // without addresses
    tt_cuda_sdpa *sdpa;          // NULL: plain kernels
} state;

static void release(void *kernel_state)
{
    state *s = kernel_state;
    if (s != NULL && s->sdpa != NULL)
        s->device->api->sdpa_destroy(s->sdpa);
    tt_free(s);
}

static bool fits(const tt_site *site)
{
    int64_t first, n;
    tt__site_runs runs;
    return tt_operand_dim(&site->in[Q], HEAD) <= MAX_HEAD &&
           tt__are_runs(&site->in[Q].local, SEQ, &runs) &&
           tt__are_runs(&site->in[K].local, SEQ, &runs) &&
           tt__heads_map(site, &first, &n) && first == 0 &&
           n == tt_operand_dim(&site->in[K], HEADS);
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ssssfs", "sf") && fits(site);
}

static bool can_grad(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ssssfs", "s") && fits(site);
}

static tt_cuda_heads heads_of(const tt_operand *o, const void *base)
{
    return (tt_cuda_heads){.data = (void *)(uintptr_t)base,
                           .batch = o->stride[BATCH],
                           .seq = o->stride[SEQ],
                           .head = o->stride[HEADS]};
}

static void bind(const tt_site *site, const tt_args *args,
                 tt_cuda_attention_args *a)
{
    const bool is_grad = site->op == &tt_op_attention_grad;
    const void *none[6] = {0};
    void *no_out[3] = {0};
    const void *const *in = args == NULL ? none : args->in;
    void *const *out = args == NULL ? no_out : args->out;
    a->q = heads_of(&site->in[Q], in[Q]);
    a->k = heads_of(&site->in[K], in[K]);
    a->v = heads_of(&site->in[V], in[V]);
    if (is_grad) {
        a->o = heads_of(&site->in[O], in[O]);
        a->lse = (float *)(uintptr_t)in[LSE];
        a->d_o = heads_of(&site->in[DO], in[DO]);
        a->d_q = heads_of(&site->out[Q], out[Q]);
        a->d_k = heads_of(&site->out[K], out[K]);
        a->d_v = heads_of(&site->out[V], out[V]);
    } else {
        a->o = heads_of(&site->out[0], out[0]);
        a->lse = out[1];
    }
    a->scratch = args == NULL ? NULL : args->scratch;
}

static void describe(const tt_site *site, tt_cuda_attention_args *a)
{
    const tt_attention_params *p = site->params;
    const tt_operand *q = &site->in[Q], *k = &site->in[K];
    tt__site_runs of_q, of_k;
    (void)tt__are_runs(&q->local, SEQ, &of_q);
    (void)tt__are_runs(&k->local, SEQ, &of_k);
    *a = (tt_cuda_attention_args){
        .type = q->dtype,
        .is_causal = p->causal,
        .scale = (float)tt_attention_scale(p, tt_operand_dim(q, HEAD)),
        .batch = tt_operand_dim(q, BATCH),
        .q_heads = tt_operand_dim(q, HEADS),
        .kv_heads = tt_operand_dim(k, HEADS),
        .q_len = tt_operand_dim(q, SEQ),
        .k_len = tt_operand_dim(k, SEQ),
        .head = tt_operand_dim(q, HEAD),
        .q_first = of_q.first,
        .q_turn = of_q.turn,
        .q_gap = of_q.gap,
        .k_first = of_k.first,
        .k_turn = of_k.turn,
        .k_gap = of_k.gap,
    };
    bind(site, NULL, a);
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    const bool is_grad = site->op == &tt_op_attention_grad;
    for (int i = 0; i < site->n_in; i++)
        tt__heads_fit(&site->in[i]);
    for (int i = 0; i < site->n_out; i++)
        tt__heads_fit(&site->out[i]);
    TT_TRY(tt__cuda_state(backend, sizeof(state), prepared_out));
    state *s = prepared_out->state;
    describe(site, &s->args);
    const tt_cuda_attention_args *a = &s->args;
    // Fused kernels know sequences of one run only.
    if (a->q_gap == 0 && a->k_gap == 0) {
        const tt_status status = tt__cuda_status(
            s->device->api->sdpa_create(s->device->cuda, a, is_grad, &s->sdpa));
        if (status != TT_OK) {
            release(s);
            return status;
        }
    }
    const int64_t own = is_grad ? 4 * a->batch * a->q_heads * a->q_len : 0;
    const int64_t fused =
        s->sdpa == NULL ? 0 : s->device->api->sdpa_scratch(s->sdpa);
    prepared_out->scratch_bytes = own > fused ? own : fused;
    return TT_OK;
}

// Fused kernels need addresses that are multiples of 16, and parts of a tensor may
// begin anywhere; where they do, the plain kernels run.
static bool is_aligned(const tt_cuda_attention_args *a)
{
    const void *at[] = {a->q.data,   a->k.data,   a->v.data,   a->o.data,
                        a->d_o.data, a->d_q.data, a->d_k.data, a->d_v.data};
    uintptr_t bits = 0;
    for (int i = 0; i < 8; i++)
        bits |= (uintptr_t)at[i];
    return bits % 16 == 0;
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    const state *s = kernel_state;
    tt_cuda_attention_args a = s->args;
    bind(site, args, &a);
    if (s->sdpa != NULL && is_aligned(&a))
        return tt__cuda_status(
            s->device->api->sdpa_run(s->device->cuda, s->sdpa, &a));
    return site->op == &tt_op_attention
               ? TT__CUDA(kernel_state, attention, &a)
               : TT__CUDA(kernel_state, attention_grad, &a);
}

const tt_kernel_def tt__cuda_attention_kernels[] = {
    {TT_KERNEL(cuda, attention), .strided_in = 1U << Q | 1U << K | 1U << V,
     .strided_out = 1, .can = can, .prepare = prepare, .run = run,
     .release = release},
    {TT_KERNEL(cuda, attention_grad),
     .strided_in = 1U << Q | 1U << K | 1U << V | 1U << O | 1U << DO,
     .strided_out = 1U << Q | 1U << K | 1U << V, .can = can_grad,
     .prepare = prepare, .run = run, .release = release},
    {0},
};
