// attention_backward - gradients of queries, keys and values in one walk.
//
//   P  = exp(S - lse)              delta(i) = d_o(i).o(i)
//   dS = P (d_o V^T - delta)       d_v = P^T d_o   d_k = scale dS^T Q   d_q = scale dS K
//
// One task is a span of keys of one key-value head: it owns their d_k and d_v and
// walks over the query heads that share them. d_q of a head is summed over its
// keys in the task; where one span would leave too few tasks to share out, keys
// are cut into several, each with its own d_q, added in order at the end. The
// cut depends on the shape alone.

#include "backend/cpu/simd/attention_block.h"
#include "backend/cpu/simd/elementary.h"
#include "backend/cpu/simd/parallel.h"

#include <omp.h>

enum {
    TT_ENOUGH_TASKS = 16,
    TT_SPAN_MIN = 4 * TT_K_BLOCK // keys; fewer are not worth an own d_q
};

// The scratch of one thread.
typedef struct space {
    float *keys, *values;     // head_dim x TT_K_BLOCK, transposed
    float *k_rows, *v_rows;   // TT_K_BLOCK x width, if not read in place
    float *q, *d_o;           // TT_Q_BLOCK x width; q times scale * log2 e
    float *weights, *d_score; // TT_Q_BLOCK x TT_K_BLOCK
    float *d_k, *d_v;         // span x width
    float *d_q;               // q_len x width, when there is one span
    float *delta;             // q_len
} space;

// Keys [k0, k0 + n) of head kv of sample b, for query head h.
typedef struct span {
    const tt_simd_attention_args *x;
    int64_t b, kv, k0, n, h;
    float *d_q;
    space s;
} span;

static int64_t n_spans(const tt_simd_attention_args *x)
{
    const int64_t heads = max_i64(1, x->n_batch * x->kv_heads);
    const int64_t wanted = tt__blocks(TT_ENOUGH_TASKS, heads);
    const int64_t most = tt__blocks(x->k_len, TT_SPAN_MIN);
    return max_i64(1, min_i64(wanted, most));
}

static int64_t span_length(const tt_simd_attention_args *x)
{
    return round_up(tt__blocks(x->k_len, n_spans(x)), TT_K_BLOCK);
}

static int64_t cut(const tt_simd_attention_args *x, float *scratch, space *s)
{
    const int64_t width = padded_dim(x), length = span_length(x);
    tt__scratch from = {scratch, 0};
    s->keys = take(&from, TT_K_BLOCK * width);
    s->values = take(&from, TT_K_BLOCK * width);
    s->k_rows = take(&from, TT_K_BLOCK * width);
    s->v_rows = take(&from, TT_K_BLOCK * width);
    s->q = take(&from, TT_Q_BLOCK * width);
    s->d_o = take(&from, TT_Q_BLOCK * width);
    s->weights = take(&from, (int64_t)TT_Q_BLOCK * TT_K_BLOCK);
    s->d_score = take(&from, (int64_t)TT_Q_BLOCK * TT_K_BLOCK);
    s->d_k = take(&from, length * width);
    s->d_v = take(&from, length * width);
    s->d_q = n_spans(x) == 1 ? take(&from, x->q_len * width) : NULL;
    s->delta = take(&from, x->q_len);
    return from.used;
}

// The d_q of every span, behind the scratch of the threads.
static int64_t shared_floats(const tt_simd_attention_args *x)
{
    if (n_spans(x) == 1)
        return 0;
    return n_spans(x) * x->n_batch * x->q_heads * x->q_len * padded_dim(x);
}

int64_t TT_SYMBOL(tt__attention_backward_bytes)(const tt_simd_attention_args *x)
{
    space s;
    return (cut(x, NULL, &s) * x->threads + shared_floats(x)) * 4;
}

TT_INLINE float dot(tt_simd_type type, const void *a, const void *b, int64_t n)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += load(type, a, i) * load(type, b, i);
    return sum;
}

static void find_delta(const span *c)
{
    const tt_simd_attention_args *x = c->x;
    for (int64_t i = 0; i < x->q_len; i++) {
        const void *o = head_row(x, &x->o, c->b, c->h, i);
        const void *d_o = head_row(x, &x->d_o, c->b, c->h, i);
        c->s.delta[i] = x->type == TT_SIMD_BF16
                            ? dot(TT_SIMD_BF16, o, d_o, x->head_dim)
                            : dot(TT_SIMD_F32, o, d_o, x->head_dim);
    }
}

// Scores become weights, gradients of weights become gradients of scores. Both
// are 0 where a panel of either direction may read beyond what is visible.
TT_INLINE void differentiate(const span *c, int64_t q0, int64_t m, int64_t n,
                             int64_t shift)
{
    const tt_simd_attention_args *x = c->x;
    const float *lse = x->lse + (c->b * x->q_heads + c->h) * x->q_len + q0;
    for (int64_t i = 0; i < m; i++) {
        float *w = c->s.weights + i * TT_K_BLOCK;
        float *d = c->s.d_score + i * TT_K_BLOCK;
        const int64_t seen = visible(i, shift, n);
        const int64_t whole = round_up(seen, TT_LANES);
        const int64_t read =
            round_up(visible(i + TT_MR - 1, shift, n), TT_LANES);
        const float base = lse[i] * TT_LOG2_E, delta = c->s.delta[q0 + i];
#pragma omp simd
        for (int64_t j = 0; j < whole; j++) {
            w[j] = v_exp2_below(w[j] - base);
            d[j] = w[j] * (d[j] - delta);
        }
        for (int64_t j = seen; j < read; j++)
            w[j] = d[j] = 0.0f;
    }
}

// One tile: m queries from q0 against n keys from k0 (of the sequence).
static void add_tile(const span *c, int64_t q0, int64_t k0, int64_t n,
                     tt__rows k_rows)
{
    const tt_simd_attention_args *x = c->x;
    const int64_t width = padded_dim(x), d = x->head_dim;
    const int64_t m = min_i64(TT_Q_BLOCK, x->q_len - q0);
    const int64_t shift = shift_of(x, q0, k0);
    if (visible(m - 1, shift, n) == 0)
        return;
    pack_rows(x, head_row(x, &x->q, c->b, c->h, q0), x->q.row, m,
              x->scale * TT_LOG2_E, c->s.q);
    const tt__rows d_o = rows_of(x, head_row(x, &x->d_o, c->b, c->h, q0),
                                 x->d_o.row, m, c->s.d_o);
    tt__product t = {
        .a = c->s.q,
        .a_row = width,
        .a_step = 1,
        .b = c->s.keys,
        .b_row = TT_K_BLOCK,
        .c = c->s.weights,
        .c_row = TT_K_BLOCK,
        .m = m,
        .n = round_up(n, TT_LANES),
        .k = d,
    };
    tile_multiply(&t, TT_BAND_SCORES, shift);
    t.a = d_o.data, t.a_row = d_o.row, t.b = c->s.values, t.c = c->s.d_score;
    tile_multiply(&t, TT_BAND_SCORES, shift);
    differentiate(c, q0, m, n, shift);
    t = (tt__product){
        .a = c->s.weights,
        .a_row = 1,
        .a_step = TT_K_BLOCK,
        .b = d_o.data,
        .b_row = d_o.row,
        .c = c->s.d_v + (k0 - c->k0) * width,
        .c_row = width,
        .m = n,
        .n = width,
        .k = m,
        .adds = true,
    };
    tile_multiply(&t, TT_BAND_SCATTER, shift);
    t.a = c->s.d_score, t.b = c->s.q, t.b_row = width;
    t.c = c->s.d_k + (k0 - c->k0) * width;
    tile_multiply(&t, TT_BAND_SCATTER, shift);
    t = (tt__product){
        .a = c->s.d_score,
        .a_row = TT_K_BLOCK,
        .a_step = 1,
        .b = k_rows.data,
        .b_row = k_rows.row,
        .c = c->d_q + q0 * width,
        .c_row = width,
        .m = m,
        .n = width,
        .k = n,
        .adds = true,
    };
    tile_multiply(&t, TT_BAND_GATHER, shift);
}

// All queries of head c->h against the span.
static void run_head(const span *c)
{
    const tt_simd_attention_args *x = c->x;
    const int64_t end = c->k0 + c->n;
    memset(c->d_q, 0, (size_t)(x->q_len * padded_dim(x)) * sizeof(float));
    find_delta(c);
    for (int64_t k0 = c->k0; k0 < end; k0 += TT_K_BLOCK) {
        const int64_t n = min_i64(TT_K_BLOCK, end - k0);
        const tt__rows k_rows = rows_of(x, head_row(x, &x->k, c->b, c->kv, k0),
                                        x->k.row, n, c->s.k_rows);
        const tt__rows v_rows = rows_of(x, head_row(x, &x->v, c->b, c->kv, k0),
                                        x->v.row, n, c->s.v_rows);
        pack_columns(x, k_rows, n, c->s.keys);
        pack_columns(x, v_rows, n, c->s.values);
        for (int64_t q0 = 0; q0 < x->q_len; q0 += TT_Q_BLOCK)
            add_tile(c, q0, k0, n, k_rows);
    }
}

static void run_span(span *c, float *shared)
{
    const tt_simd_attention_args *x = c->x;
    const int64_t width = padded_dim(x), group = x->q_heads / x->kv_heads;
    const int64_t heads = x->n_batch * x->q_heads;
    const int64_t index = c->k0 / span_length(x);
    memset(c->s.d_k, 0, (size_t)(c->n * width) * sizeof(float));
    memset(c->s.d_v, 0, (size_t)(c->n * width) * sizeof(float));
    for (c->h = c->kv * group; c->h < (c->kv + 1) * group; c->h++) {
        const int64_t head = index * heads + c->b * x->q_heads + c->h;
        c->d_q = shared == NULL ? c->s.d_q : shared + head * x->q_len * width;
        run_head(c);
        if (shared == NULL)
            unpack_rows(x, c->d_q, x->scale, x->q_len,
                        head_row(x, &x->d_q, c->b, c->h, 0), x->d_q.row);
    }
    unpack_rows(x, c->s.d_k, TT_LN_2, c->n,
                head_row(x, &x->d_k, c->b, c->kv, c->k0), x->d_k.row);
    unpack_rows(x, c->s.d_v, 1.0f, c->n,
                head_row(x, &x->d_v, c->b, c->kv, c->k0), x->d_v.row);
}

// d_q of a head = the sum over spans, in order.
static void add_spans(const tt_simd_attention_args *x, float *shared,
                      int64_t head)
{
    const int64_t n = x->q_len * padded_dim(x);
    const int64_t stride = x->n_batch * x->q_heads * n;
    float *sum = shared + head * n;
    for (int64_t s = 1; s < n_spans(x); s++) {
        const float *part = sum + s * stride;
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += part[i];
    }
    unpack_rows(x, sum, x->scale, x->q_len,
                head_row(x, &x->d_q, head / x->q_heads, head % x->q_heads, 0),
                x->d_q.row);
}

void TT_SYMBOL(tt__attention_backward)(const tt_simd_attention_args *x)
{
    const int64_t spans = n_spans(x), length = span_length(x);
    const int64_t tasks = x->n_batch * x->kv_heads * spans;
    const int64_t heads = x->n_batch * x->q_heads;
    const bool forks = x->q_len * x->k_len * tasks > 4096;
    space whole;
    const int64_t stride = cut(x, NULL, &whole);
    float *base = x->scratch;
    float *shared = spans == 1 ? NULL : base + stride * x->threads;
#pragma omp parallel num_threads(x->threads) if (forks)
    {
        span c = {.x = x};
        cut(x, base + omp_get_thread_num() * stride, &c.s);
#pragma omp for schedule(dynamic, 1)
        for (int64_t task = 0; task < tasks; task++) {
            c.b = task / (x->kv_heads * spans);
            c.kv = task / spans % x->kv_heads;
            c.k0 = min_i64(x->k_len, task % spans * length);
            c.n = min_i64(length, x->k_len - c.k0);
            run_span(&c, shared);
        }
#pragma omp for schedule(static)
        for (int64_t head = 0; head < heads; head++)
            if (shared != NULL)
                add_spans(x, shared, head);
    }
}
