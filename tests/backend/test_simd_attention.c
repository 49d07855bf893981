// test_simd_attention - fused attention against the double loop that its header
// states.

#include "backend/simd_check.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

typedef struct shape {
    int64_t batch, heads, kv, q_len, k_len, dim, q_offset, k_offset;
    bool is_causal;
    int64_t q_turn, q_gap, k_turn, k_gap;
} shape;

typedef struct tensors {
    buf q, k, v, o, d_o, d_q, d_k, d_v, lse;
} tensors;

typedef struct expected {
    double *o, *lse, *d_q, *d_k, *d_v;
} expected;

#define SCALE 0.3

// All tensors are [batch, len, heads, dim].
static tensors make(const shape *s, tt_simd_type type)
{
    const int64_t nq = s->batch * s->heads * s->q_len * s->dim;
    const int64_t nk = s->batch * s->kv * s->k_len * s->dim;
    return (tensors){
        .q = buf_random(type, nq, 1.0),
        .k = buf_random(type, nk, 1.0),
        .v = buf_random(type, nk, 1.0),
        .o = buf_filled(type, nq, 7.0),
        .d_o = buf_random(type, nq, 1.0),
        .d_q = buf_filled(type, nq, 7.0),
        .d_k = buf_filled(type, nk, 7.0),
        .d_v = buf_filled(type, nk, 7.0),
        .lse = buf_filled(TT_SIMD_F32, s->batch * s->heads * s->q_len, 7.0),
    };
}

static tt_simd_attention_args args_of(const shape *s, const tensors *t)
{
    const int64_t d = s->dim, q_row = s->heads * d, k_row = s->kv * d;
    const tt_simd_heads q = {NULL, s->q_len * q_row, d, q_row};
    const tt_simd_heads k = {NULL, s->k_len * k_row, d, k_row};
    tt_simd_attention_args x = {
        .type = t->q.type,
        .is_causal = s->is_causal,
        .scale = (float)SCALE,
        .n_batch = s->batch,
        .q_heads = s->heads,
        .kv_heads = s->kv,
        .q_len = s->q_len,
        .k_len = s->k_len,
        .head_dim = s->dim,
        .q_offset = s->q_offset,
        .k_offset = s->k_offset,
        .q_turn = s->q_turn,
        .q_gap = s->q_gap,
        .k_turn = s->k_turn,
        .k_gap = s->k_gap,
        .q = q,
        .k = k,
        .v = k,
        .o = q,
        .lse = t->lse.data,
        .d_o = q,
        .d_q = q,
        .d_k = k,
        .d_v = k,
    };
    x.q.data = t->q.data, x.k.data = t->k.data, x.v.data = t->v.data;
    x.o.data = t->o.data, x.d_o.data = t->d_o.data, x.d_q.data = t->d_q.data;
    x.d_k.data = t->d_k.data, x.d_v.data = t->d_v.data;
    return x;
}

// Scratch full of NaN: nothing of it may be read before it is written.
static void *poisoned(int64_t bytes)
{
    void *p = aligned_alloc(64, ((size_t)bytes + 63) / 64 * 64 + 64);
    CHECK(p != NULL);
    memset(p, 0xff, (size_t)bytes);
    return p;
}

static void run(const tt_simd *simd, const shape *s, const tensors *t,
                int threads)
{
    tt_simd_attention_args x = args_of(s, t);
    x.threads = threads;
    x.scratch = poisoned(simd->attention->forward_scratch_bytes(&x));
    simd->attention->forward(&x);
    free(x.scratch);
    x.scratch = poisoned(simd->attention->backward_scratch_bytes(&x));
    simd->attention->backward(&x);
    free(x.scratch);
}

typedef struct row {
    int64_t q, k, kv_step; // where the query and its first key begin
    int64_t n;             // keys it sees
    double *p;
} row;

static double dot(const buf *a, int64_t i, const buf *b, int64_t j, int64_t n)
{
    double sum = 0;
    for (int64_t d = 0; d < n; d++)
        sum += buf_get(a, i + d) * buf_get(b, j + d);
    return sum;
}

// Weights of a row; returns its lse.
static double weights(const shape *s, const tensors *t, const row *r)
{
    double top = -(double)INFINITY, sum = 0;
    for (int64_t j = 0; j < r->n; j++) {
        const int64_t k = r->k + j * r->kv_step;
        r->p[j] = SCALE * dot(&t->q, r->q, &t->k, k, s->dim);
        top = fmax(top, r->p[j]);
    }
    for (int64_t j = 0; j < r->n; j++)
        sum += exp(r->p[j] - top);
    for (int64_t j = 0; j < r->n; j++)
        r->p[j] = exp(r->p[j] - top) / sum;
    return top + log(sum);
}

static void add(double *sum, const buf *x, int64_t i, double factor, int64_t n)
{
    for (int64_t d = 0; d < n; d++)
        sum[d] += factor * buf_get(x, i + d);
}

// The row's delta comes from the o that forward stored, as backward sees it.
static void differentiate_row(const shape *s, const tensors *t, const row *r,
                              expected *e)
{
    const double delta = dot(&t->d_o, r->q, &t->o, r->q, s->dim);
    for (int64_t j = 0; j < r->n; j++) {
        const int64_t k = r->k + j * r->kv_step;
        const double dp = dot(&t->d_o, r->q, &t->v, k, s->dim);
        const double ds = SCALE * r->p[j] * (dp - delta);
        add(e->o + r->q, &t->v, k, r->p[j], s->dim);
        add(e->d_v + k, &t->d_o, r->q, r->p[j], s->dim);
        add(e->d_q + r->q, &t->k, k, ds, s->dim);
        add(e->d_k + k, &t->q, r->q, ds, s->dim);
    }
}

static expected naive(const shape *s, const tensors *t)
{
    expected e = {doubles(t->o.n), doubles(t->lse.n), doubles(t->d_q.n),
                  doubles(t->d_k.n), doubles(t->d_v.n)};
    double *p = doubles(s->k_len + 1);
    const int64_t rows = s->batch * s->heads * s->q_len;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t b = i / s->q_len / s->heads, h = i / s->q_len % s->heads;
        const int64_t q = i % s->q_len, kv = h / (s->heads / s->kv);
        const int64_t at = s->q_offset + q + (q < s->q_turn ? 0 : s->q_gap);
        int64_t seen = 0;
        while (seen < s->k_len &&
               (!s->is_causal ||
                s->k_offset + seen + (seen < s->k_turn ? 0 : s->k_gap) <= at))
            seen++;
        const row r = {((b * s->q_len + q) * s->heads + h) * s->dim,
                       (b * s->k_len * s->kv + kv) * s->dim, s->kv * s->dim,
                       seen, p};
        e.lse[i] = weights(s, t, &r);
        differentiate_row(s, t, &r, &e);
    }
    return e;
}

static void check_shape(const tt_simd *simd, tt_simd_type type, const shape *s)
{
    const tensors one = make(s, type);
    tensors more = one;
    run(simd, s, &one, 1);
    more.o = buf_filled(type, one.o.n, 0);
    more.lse = buf_filled(TT_SIMD_F32, one.lse.n, 0);
    more.d_q = buf_filled(type, one.d_q.n, 0);
    more.d_k = buf_filled(type, one.d_k.n, 0);
    more.d_v = buf_filled(type, one.d_v.n, 0);
    run(simd, s, &more, 3);
    buf_check_same(&one.o, &more.o, "o");
    buf_check_same(&one.lse, &more.lse, "lse");
    buf_check_same(&one.d_q, &more.d_q, "d_q");
    buf_check_same(&one.d_k, &more.d_k, "d_k");
    buf_check_same(&one.d_v, &more.d_v, "d_v");
    const expected e = naive(s, &one);
    buf_check_loose(&one.o, e.o, 3.0, "o");
    buf_check(&one.lse, e.lse, "lse");
    buf_check_loose(&one.d_q, e.d_q, 3.0, "d_q");
    buf_check_loose(&one.d_k, e.d_k, 3.0, "d_k");
    buf_check_loose(&one.d_v, e.d_v, 3.0, "d_v");
}

static void small_shapes(const tt_simd *simd, tt_simd_type type)
{
    static const shape shapes[] = {
        {1, 1, 1, 1, 1, 8, 0, 0, true},
        {2, 3, 3, 5, 5, 16, 0, 0, true},
        {1, 4, 2, 17, 17, 20, 0, 0, true},   // grouped, odd dimension
        {2, 4, 1, 33, 70, 33, 0, 0, false},  // one key-value head
        {1, 2, 2, 65, 129, 64, 64, 0, true}, // the later half of a sequence
        {1, 2, 2, 65, 66, 64, 2, 7, true},   // the first rows see nothing
        {1, 1, 1, 9, 9, 256, 0, 0, true},
        {1, 2, 1, 20, 30, 16, 0, 40, true}, // no row sees anything
        // An early and a late run: of the same rank, of an earlier, of a later one.
        {2, 2, 1, 22, 22, 16, 11, 11, true, 11, 22, 11, 22},
        {1, 2, 2, 23, 22, 20, 22, 0, true, 12, 7, 11, 66},
        {1, 2, 1, 22, 23, 33, 0, 22, true, 11, 66, 12, 7},
        {1, 1, 1, 5, 6, 8, 3, 0, true, 1, 9, 5, 6},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        check_shape(simd, type, &shapes[i]);
}

TEST(attention_equals_the_naive_one)
{
    simd_each(small_shapes);
}

static void long_shapes(const tt_simd *simd, tt_simd_type type)
{
    // Several chunks of queries and spans of keys.
    const shape causal = {1, 2, 1, 277, 277, 32, 0, 0, true};
    const shape full = {1, 1, 1, 130, 600, 16, 0, 0, false};
    const shape turned = {1,  2,    1,   277, 301, 32, 100,
                          90, true, 139, 300, 150, 310};
    check_shape(simd, type, &causal);
    check_shape(simd, type, &turned);
    check_shape(simd, type, &full);
}

TEST(attention_over_many_blocks_equals_the_naive_one)
{
    simd_each(long_shapes);
}

static void nan_case(const tt_simd *simd, tt_simd_type type)
{
    const shape s = {1, 1, 1, 20, 20, 16, 0, 0, true};
    const tensors t = make(&s, type);
    const int64_t bad = 7 * s.dim;
    buf_set(&t.q, bad, (double)NAN);
    run(simd, &s, &t, 1);
    for (int64_t i = 0; i < 20; i++)
        CHECK(isnan(buf_get(&t.o, i * 16)) == (i == 7));
    CHECK(isnan(buf_get(&t.d_q, bad)));
    CHECK(isnan(buf_get(&t.d_v, 0)));
}

TEST(attention_passes_nan_on)
{
    simd_each(nan_case);
}

static void decode(const tt_simd *simd, const shape *s, const tensors *t,
                   int threads)
{
    tt_simd_attention_args x = args_of(s, t);
    x.threads = threads;
    x.scratch = poisoned(simd->attention->decode_scratch_bytes(&x));
    simd->attention->decode(&x);
    free(x.scratch);
}

// Few queries at the end of what is cached.
static void decode_shape(const tt_simd *simd, tt_simd_type type, const shape *s)
{
    const tensors t = make(s, type);
    const expected e = naive(s, &t);
    decode(simd, s, &t, 1);
    buf_check_loose(&t.o, e.o, 3.0, "o");
    const buf one = buf_copy(&t.o);
    decode(simd, s, &t, 3);
    buf_check_same(&one, &t.o, "o");
}

static void decode_shapes(const tt_simd *simd, tt_simd_type type)
{
    static const shape shapes[] = {
        {1, 1, 1, 1, 1, 8, 0, 0, true},
        {2, 4, 2, 3, 40, 64, 35, 0, true},
        {3, 6, 2, 1, 700, 33, 650, 0, true},
        {1, 4, 1, 7, 300, 64, 293, 0, true},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        decode_shape(simd, type, &shapes[i]);
}

TEST(attention_of_few_queries_equals_the_naive_one)
{
    simd_each(decode_shapes);
}

// Samples an odd number of elements apart: no row of the second is aligned to two.
static void odd_samples(const tt_simd *simd, tt_simd_type type)
{
    enum { DIM = 64, LEN = 5, APART = LEN * DIM + 1, N = 2 * APART };
    const shape s = {2, 1, 1, LEN, LEN, DIM, 0, 0, true};
    const tensors tight = make(&s, type);
    tensors loose = tight;
    loose.q = buf_filled(type, N, 0);
    loose.k = buf_filled(type, N, 0);
    loose.v = buf_filled(type, N, 0);
    loose.o = buf_filled(type, N, 0);
    for (int64_t i = 0; i < tight.q.n; i++) {
        const int64_t to = i / (LEN * DIM) * APART + i % (LEN * DIM);
        buf_set(&loose.q, to, buf_get(&tight.q, i));
        buf_set(&loose.k, to, buf_get(&tight.k, i));
        buf_set(&loose.v, to, buf_get(&tight.v, i));
    }
    tt_simd_attention_args x = args_of(&s, &loose);
    x.threads = 1;
    x.q.batch = x.k.batch = x.v.batch = x.o.batch = APART;
    x.scratch = poisoned(simd->attention->forward_scratch_bytes(&x));
    simd->attention->forward(&x);
    free(x.scratch);
    const expected e = naive(&s, &tight);
    for (int64_t i = 0; i < tight.o.n; i++) {
        const int64_t from = i / (LEN * DIM) * APART + i % (LEN * DIM);
        buf_set(&tight.o, i, buf_get(&loose.o, from));
    }
    buf_check_loose(&tight.o, e.o, 3.0, "o");
}

TEST(attention_of_samples_that_lie_oddly_equals_the_naive_one)
{
    simd_each(odd_samples);
}
