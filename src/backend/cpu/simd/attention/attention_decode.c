// attention_decode - few queries over many keys, as decoding needs it. Keys and values
// are read where they lie, once, and nothing is packed: a copy would cost as much as
// the attention. A task is one key-value head of one sample with all queries that read
// it. Bound by memory.

#include "backend/cpu/simd/attention/attention_block.h"
#include "backend/cpu/simd/elementary.h"
#include "backend/cpu/simd/parallel.h"

#include <omp.h>

// The scratch of one thread, for the queries of one task.
typedef struct space {
    float *q;      // queries x head_dim, times scale * log2 e
    float *scores; // queries x k_len
    float *out;    // queries x head_dim
} space;

typedef struct task {
    const tt_simd_attention_args *x;
    int64_t b, kv;     // sample, key-value head
    int64_t group;     // query heads that read it
    int64_t n_queries; // group * q_len: head by head
    space s;
} task;

static int64_t cut(const tt_simd_attention_args *x, float *scratch, space *s)
{
    const int64_t queries = x->q_heads / x->kv_heads * x->q_len;
    tt__scratch from = {scratch, 0};
    s->q = take(&from, queries * x->head_dim);
    s->scores = take(&from, queries * x->k_len);
    s->out = take(&from, queries * x->head_dim);
    return from.used;
}

int64_t TT_SYMBOL(tt__attention_decode_bytes)(const tt_simd_attention_args *x)
{
    space s;
    return cut(x, NULL, &s) * 4 * x->threads;
}

// Keys that query r of the task sees.
TT_INLINE int64_t seen(const task *t, int64_t r)
{
    const tt_simd_attention_args *x = t->x;
    return min_i64(x->q_offset - x->k_offset + r % x->q_len + 1, x->k_len);
}

// Where query r lies in q or o.
TT_INLINE void *query_row(const task *t, const tt_simd_heads *view, int64_t r)
{
    return head_row(t->x, view, t->b, t->kv * t->group + r / t->x->q_len,
                    r % t->x->q_len);
}

TT_INLINE void load_queries(tt_simd_type type, const task *t)
{
    const int64_t d = t->x->head_dim;
    const float unit = t->x->scale * TT_LOG2_E;
    for (int64_t r = 0; r < t->n_queries; r++) {
        const void *q = query_row(t, &t->x->q, r);
        for (int64_t i = 0; i < d; i++)
            t->s.q[r * d + i] = unit * load(type, q, i);
    }
}

TT_INLINE float dot(tt_simd_type type, const float *q, const void *k, int64_t d)
{
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < d; i++)
        sum += q[i] * load(type, k, i);
    return sum;
}

TT_INLINE void score(tt_simd_type type, const task *t)
{
    const tt_simd_attention_args *x = t->x;
    const int64_t d = x->head_dim, n = seen(t, x->q_len - 1);
    for (int64_t j = 0; j < n; j++) {
        const void *k = head_row(x, &x->k, t->b, t->kv, j);
        for (int64_t r = 0; r < t->n_queries; r++)
            t->s.scores[r * x->k_len + j] = dot(type, t->s.q + r * d, k, d);
    }
}

// Scores become weights that sum to 1; keys that a query does not see have none.
static void weigh(const task *t)
{
    const tt_simd_attention_args *x = t->x;
    const int64_t all = seen(t, x->q_len - 1);
    for (int64_t r = 0; r < t->n_queries; r++) {
        float *s = t->s.scores + r * x->k_len;
        const int64_t n = seen(t, r);
        const float top = max_of(TT_SIMD_F32, s, n);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < n; j++) {
            s[j] = v_exp2_below(s[j] - top);
            sum += s[j];
        }
        const float share = 1 / sum;
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            s[j] *= share;
        for (int64_t j = n; j < all; j++)
            s[j] = 0;
    }
}

TT_INLINE void mix(tt_simd_type type, const task *t)
{
    const tt_simd_attention_args *x = t->x;
    const int64_t d = x->head_dim, n = seen(t, x->q_len - 1);
    memset(t->s.out, 0, (size_t)(t->n_queries * d) * sizeof(float));
    for (int64_t j = 0; j < n; j++) {
        const void *v = head_row(x, &x->v, t->b, t->kv, j);
        for (int64_t r = 0; r < t->n_queries; r++) {
            const float weight = t->s.scores[r * x->k_len + j];
            float *out = t->s.out + r * d;
            if (weight == 0) // not seen
                continue;
#pragma omp simd
            for (int64_t i = 0; i < d; i++)
                out[i] += weight * load(type, v, i);
        }
    }
    for (int64_t r = 0; r < t->n_queries; r++) {
        void *o = query_row(t, &x->o, r);
        for (int64_t i = 0; i < d; i++)
            store(type, o, i, t->s.out[r * d + i]);
    }
}

TT_INLINE void run(tt_simd_type type, const task *t)
{
    load_queries(type, t);
    score(type, t);
    weigh(t);
    mix(type, t);
}

void TT_SYMBOL(tt__attention_decode)(const tt_simd_attention_args *x)
{
    const int64_t n = x->n_batch * x->kv_heads;
    const int64_t keys = x->q_offset - x->k_offset + x->q_len;
    const bool forks =
        n * keys * x->head_dim * x->q_heads / x->kv_heads * x->q_len >=
        TT_FORK_ELEMENTS / 2;
#pragma omp parallel num_threads(x->threads) if (forks)
    {
        task t = {.x = x, .group = x->q_heads / x->kv_heads};
        t.n_queries = t.group * x->q_len;
        const int64_t stride = cut(x, NULL, &t.s);
        (void)cut(x, (float *)x->scratch + stride * omp_get_thread_num(), &t.s);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < n; i++) {
            t.b = i / x->kv_heads;
            t.kv = i % x->kv_heads;
            if (x->type == TT_SIMD_BF16)
                run(TT_SIMD_BF16, &t);
            else
                run(TT_SIMD_F32, &t);
        }
    }
}
