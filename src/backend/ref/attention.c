// attention - reference kernels of softmax, attention and attention_merge.
//
// Straight from the formulas: all operands become doubles in scratch memory, and each
// query gets a whole row of scores. What makes it more than a few loops is that a rank
// may hold a part: positions are global (a causal mask needs them), and query heads may
// read key-value heads that start elsewhere.

#include "ops/nn/attention.h"

#include "backend/ref/ref.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

#include <assert.h>
#include <math.h>

static double load(const tt_site *site, const tt_args *args, int i, int64_t at)
{
    return tt_dtype_load(site->in[i].dtype, args->in[i], at);
}

static void store(const tt_site *site, const tt_args *args, int i, int64_t at,
                  double value)
{
    tt_dtype_store(site->out[i].dtype, args->out[i], at, value);
}

static tt_status run_softmax(void *state, const tt_site *site,
                             const tt_args *args)
{
    (void)state;
    const tt_operand *x = &site->in[0];
    const int64_t n = tt_operand_dim(x, x->local.shape.ndim - 1);
    for (int64_t row = 0; row < tt_operand_count(x); row += n) {
        double max = -HUGE_VAL, sum = 0;
        for (int64_t i = 0; i < n; i++)
            max = fmax(max, load(site, args, 0, row + i));
        for (int64_t i = 0; i < n; i++)
            sum += exp(load(site, args, 0, row + i) - max);
        for (int64_t i = 0; i < n; i++)
            store(site, args, 0, row + i,
                  exp(load(site, args, 0, row + i) - max) / sum);
    }
    return TT_OK;
}

static tt_status run_softmax_grad(void *state, const tt_site *site,
                                  const tt_args *args)
{
    (void)state;
    const tt_operand *y = &site->in[0];
    const int64_t n = tt_operand_dim(y, y->local.shape.ndim - 1);
    for (int64_t row = 0; row < tt_operand_count(y); row += n) {
        double sum = 0;
        for (int64_t i = row; i < row + n; i++)
            sum += load(site, args, 0, i) * load(site, args, 1, i);
        for (int64_t i = row; i < row + n; i++)
            store(site, args, 0, i,
                  load(site, args, 0, i) * (load(site, args, 1, i) - sum));
    }
    return TT_OK;
}

// Scratch memory: all operands as doubles, inputs first, then a row of scores. The
// gradients of keys are sums over queries, which must not be rounded in between.
typedef struct wide {
    const tt_site *site;
    double *in[6], *out[3], *score;
} wide;

static int64_t scratch_count(const tt_site *site)
{
    int64_t n = tt_operand_dim(&site->in[1], 1);
    for (int i = 0; i < site->n_in; i++)
        n += tt_operand_count(&site->in[i]);
    for (int i = 0; i < site->n_out; i++)
        n += tt_operand_count(&site->out[i]);
    return n;
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes = scratch_count(site) * (int64_t)sizeof(double);
    return TT_OK;
}

static wide widen(const tt_site *site, const tt_args *args)
{
    wide w = {.site = site};
    double *at = args->scratch;
    for (int i = 0; i < site->n_in; i++) {
        w.in[i] = at;
        for (int64_t k = 0; k < tt_operand_count(&site->in[i]); k++)
            *at++ = load(site, args, i, k);
    }
    for (int i = 0; i < site->n_out; i++) {
        w.out[i] = at;
        for (int64_t k = 0; k < tt_operand_count(&site->out[i]); k++)
            *at++ = 0;
    }
    w.score = at;
    return w;
}

static void narrow(const wide *w, const tt_args *args)
{
    for (int i = 0; i < w->site->n_out; i++)
        for (int64_t k = 0; k < tt_operand_count(&w->site->out[i]); k++)
            store(w->site, args, i, k, w->out[i][k]);
}

// One query row: where it is, and which key-value head it reads.
typedef struct query {
    wide w;
    int64_t n_keys, head, kv_heads; // local
    int64_t q, lse;                 // offsets of the row in q, o and in lse
    int64_t batch, kv_head;
    int64_t position; // in the whole sequence
    bool causal;
    double scale;
} query;

typedef void query_fn(const query *x);

// Offset of key row j in k and v.
static int64_t key_at(const query *x, int64_t j)
{
    return ((x->batch * x->n_keys + j) * x->kv_heads + x->kv_head) * x->head;
}

static bool is_visible(const query *x, int64_t j)
{
    return !x->causal ||
           tt_position_global(&x->w.site->in[1].local, 1, j) <= x->position;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

// Fills w.score for visible keys; minus infinity elsewhere.
static void score_keys(const query *x)
{
    for (int64_t j = 0; j < x->n_keys; j++)
        x->w.score[j] = is_visible(x, j)
                            ? x->scale * dot(x->w.in[0] + x->q,
                                             x->w.in[1] + key_at(x, j), x->head)
                            : -HUGE_VAL;
}

static tt_status each_query(const wide *w, query_fn *run)
{
    assert(w->in[2] != NULL && w->out[1] != NULL);
    const tt_attention_params *p = w->site->params;
    const tt_local *q = &w->site->in[0].local, *k = &w->site->in[1].local;
    const int64_t seq = tt_shape_dim(&q->shape, 1);
    const int64_t heads = tt_shape_dim(&q->shape, 2);
    const int64_t head = tt_shape_dim(&q->shape, 3);
    const int64_t group = tt_position_extent(q, 2) / tt_position_extent(k, 2);
    query x = {.w = *w,
               .n_keys = tt_shape_dim(&k->shape, 1),
               .head = head,
               .kv_heads = tt_shape_dim(&k->shape, 2),
               .causal = p->causal,
               .scale = tt_attention_scale(p, head)};
    for (int64_t r = 0; r < tt_shape_count(&q->shape) / head; r++) {
        const int64_t h = r % heads, s = r / heads % seq;
        x.batch = r / heads / seq;
        x.q = r * head;
        x.lse = (x.batch * heads + h) * seq + s;
        x.position = tt_position_global(q, 1, s);
        x.kv_head =
            tt_position_local(k, 2, tt_position_global(q, 2, h) / group);
        if (x.kv_head < 0)
            return tt_fail(TT_ERR_STATE,
                           "%s: a query head's key-value head is elsewhere",
                           w->site->origin);
        score_keys(&x);
        run(&x);
    }
    return TT_OK;
}

static void attend(const query *x)
{
    double max = -HUGE_VAL, sum = 0;
    for (int64_t j = 0; j < x->n_keys; j++)
        max = fmax(max, x->w.score[j]);
    x->w.out[1][x->lse] = -HUGE_VAL;
    if (max == -HUGE_VAL) // no visible key
        return;
    for (int64_t j = 0; j < x->n_keys; j++)
        sum += exp(x->w.score[j] - max);
    x->w.out[1][x->lse] = max + log(sum);
    for (int64_t j = 0; j < x->n_keys; j++) {
        const double p = exp(x->w.score[j] - max) / sum;
        for (int64_t i = 0; p > 0 && i < x->head; i++)
            x->w.out[0][x->q + i] += p * x->w.in[2][key_at(x, j) + i];
    }
}

static tt_status run_attention(void *state, const tt_site *site,
                               const tt_args *args)
{
    (void)state;
    const wide w = widen(site, args);
    TT_TRY(each_query(&w, attend));
    narrow(&w, args);
    return TT_OK;
}

static void attend_grad(const query *x)
{
    assert(x->w.in[5] != NULL && x->w.out[2] != NULL);
    const double *q = x->w.in[0] + x->q, *o = x->w.in[3] + x->q;
    const double *d_o = x->w.in[5] + x->q;
    const double lse = x->w.in[4][x->lse];
    const double mean = dot(o, d_o, x->head);
    if (lse == -HUGE_VAL) // no visible key
        return;
    for (int64_t j = 0; j < x->n_keys; j++) {
        const int64_t at = key_at(x, j);
        const double *k = x->w.in[1] + at, *v = x->w.in[2] + at;
        const double p = exp(x->w.score[j] - lse);
        const double ds = p * (dot(d_o, v, x->head) - mean) * x->scale;
        for (int64_t i = 0; p > 0 && i < x->head; i++) {
            x->w.out[0][x->q + i] += ds * k[i];
            x->w.out[1][at + i] += ds * q[i];
            x->w.out[2][at + i] += p * d_o[i];
        }
    }
}

static tt_status run_attention_grad(void *state, const tt_site *site,
                                    const tt_args *args)
{
    (void)state;
    const wide w = widen(site, args);
    TT_TRY(each_query(&w, attend_grad));
    narrow(&w, args);
    return TT_OK;
}

static tt_status run_merge(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    const tt_shape *o = &site->in[0].local.shape;
    const int64_t seq = tt_shape_dim(o, 1), heads = tt_shape_dim(o, 2);
    const int64_t head = tt_shape_dim(o, 3);
    for (int64_t r = 0; r < tt_shape_count(o) / head; r++) {
        const int64_t h = r % heads, s = r / heads % seq;
        const int64_t at = (r / heads / seq * heads + h) * seq + s;
        const double lse1 = load(site, args, 1, at);
        const double lse2 = load(site, args, 3, at);
        const double max = fmax(lse1, lse2);
        const bool is_empty = max == -HUGE_VAL;
        const double e1 = is_empty ? 0 : exp(lse1 - max);
        const double e2 = is_empty ? 0 : exp(lse2 - max);
        const double sum = is_empty ? 1 : e1 + e2;
        for (int64_t i = r * head; i < (r + 1) * head; i++)
            store(site, args, 0, i,
                  (load(site, args, 0, i) * e1 + load(site, args, 2, i) * e2) /
                      sum);
        store(site, args, 1, at, max + log(sum));
    }
    return TT_OK;
}

const tt_kernel_def tt__ref_attention_kernels[] = {
    {TT_KERNEL(ref, attention), .prepare = prepare, .run = run_attention},
    {TT_KERNEL(ref, attention_grad), .prepare = prepare,
     .run = run_attention_grad},
    {TT_KERNEL(ref, attention_merge), .run = run_merge},
    {TT_KERNEL(ref, softmax), .run = run_softmax},
    {TT_KERNEL(ref, softmax_grad), .run = run_softmax_grad},
    {0},
};
