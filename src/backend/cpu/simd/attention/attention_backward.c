// attention_backward - gradients of queries, keys and values in one walk.
//
//   P  = exp(S - lse)              delta(i) = d_o(i).o(i)
//   dS = P (d_o V^T - delta)       d_v = P^T d_o   d_k = scale dS^T Q   d_q = scale dS
// K
//
// P is computed again from the saved lse, tile by tile, so nothing of size T x T is
// ever stored. The difficulty is that d_k and d_v are sums over queries, while d_q is a
// sum over keys: whichever way the tiles are shared out, one of them crosses tasks.
//
//              keys of span 0     keys of span 1
//   queries  | tile tile tile  |  tile tile tile |  -> d_q is the sum over spans
//            | tile tile tile  |  tile tile tile |
//              d_k, d_v here      d_k, d_v here     each owned by one task
//
// A task is a span of keys of one key-value head. It owns their d_k and d_v and walks
// over the query heads that share them; d_q of a head is summed over the task's keys.
// Where one span per head gives too few tasks, the keys are cut into several spans.
// Each has a d_q of its own, and these are added in order at the end. The cut depends
// on the shape alone, so the bits do not depend on the number of threads.

#include "backend/cpu/simd/attention/attention_block.h"
#include "backend/cpu/simd/attention/attention_pairs.h"
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
    // The same as bf16: pairs of queries, and for d_score pairs of keys too.
    float *w_pairs, *d_pairs, *d_rows;
    float *d_k, *d_v; // span x width
    float *d_q;       // q_len x width, when there is one span
    float *delta;     // q_len
} space;

// Keys [k0, k0 + n) of head kv of sample b, for query head h.
typedef struct span {
    const tt_simd_attention_args *x;
    bool pairs; // products are of pairs of bf16
    int64_t b, kv, k0, n, h;
    float *d_q;
    space s;
} span;

static int64_t n_spans(const tt_simd_attention_args *x)
{
    const int64_t heads = max_i64(1, x->n_batch * x->kv_heads);
    const int64_t wanted = tt__simd_blocks(TT_ENOUGH_TASKS, heads);
    const int64_t most = tt__simd_blocks(x->k_len, TT_SPAN_MIN);
    return max_i64(1, min_i64(wanted, most));
}

static int64_t span_length(const tt_simd_attention_args *x)
{
    return round_up(tt__simd_blocks(x->k_len, n_spans(x)), TT_K_BLOCK);
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
    s->w_pairs = take(&from, (int64_t)TT_Q_BLOCK * TT_K_BLOCK / 2);
    s->d_pairs = take(&from, (int64_t)TT_Q_BLOCK * TT_K_BLOCK / 2);
    s->d_rows = take(&from, (int64_t)TT_Q_BLOCK * TT_K_BLOCK / 2);
    s->d_k = take(&from, length * width);
    s->d_v = take(&from, length * width);
    s->d_q = n_spans(x) == 1 ? take(&from, x->q_len * width) : NULL;
    s->delta = take(&from, x->q_len);
    return from.used;
}

// The d_q of every span; they lie after the scratch of the threads.
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

// A tile: m queries from q0 against n keys from k0.
typedef struct tile {
    int64_t q0, m, k0, n, shift;
} tile;

// How far the entries of row i of a tile may be read by the products that follow: by a
// panel in either direction, or as the other half of a bf16 pair.
TT_INLINE int64_t read_of(const tile *t, int64_t i)
{
    return round_up(visible((i | 1) + TT_MR, t->shift, t->n), TT_LANES);
}

// Scores become weights, and gradients of weights become gradients of scores. Both are
// set to 0 where a product may read entries that the mask hides.
TT_INLINE void differentiate(const span *c, const tile *t)
{
    const tt_simd_attention_args *x = c->x;
    const float *lse = x->lse + (c->b * x->q_heads + c->h) * x->q_len + t->q0;
    const float unit = c->pairs ? x->scale * TT_LOG2_E : 1.0f;
    for (int64_t i = 0; i < t->m; i++) {
        float *w = c->s.weights + i * TT_K_BLOCK;
        float *d = c->s.d_score + i * TT_K_BLOCK;
        const int64_t seen = visible(i, t->shift, t->n);
        const int64_t whole = round_up(seen, TT_LANES), read = read_of(t, i);
        const float base = lse[i] * TT_LOG2_E;
        const float delta = c->s.delta[t->q0 + i];
#pragma omp simd
        for (int64_t j = 0; j < whole; j++) {
            w[j] = v_exp2_below(w[j] * unit - base);
            d[j] = w[j] * (d[j] - delta);
        }
        for (int64_t j = seen; j < read; j++)
            w[j] = d[j] = 0.0f;
    }
}

TT_INLINE tt__vec_u32 pair_of(tt__vec_u16 low, tt__vec_u16 high)
{
    return __builtin_convertvector(low, tt__vec_u32) |
           __builtin_convertvector(high, tt__vec_u32) << 16;
}

// Rounds weights and gradients of scores into the pairs of the next products.
static void round_tile(const span *c, const tile *t)
{
    const tt__vec zero = {0};
    for (int64_t i = 0; i < t->m; i += 2)
        for (int64_t j = 0; j < read_of(t, i); j += TT_LANES) {
            const int64_t first = i * TT_K_BLOCK + j;
            const int64_t second = first + TT_K_BLOCK;
            const bool has_second = i + 1 < t->m;
            const int64_t at = i / 2 * TT_K_BLOCK + j;
            uint16_t *rows = (uint16_t *)c->s.d_rows;
            tt__vec_u16 low =
                vec_to_bf16(vec_load(TT_SIMD_F32, c->s.weights, first));
            tt__vec_u16 high = vec_to_bf16(
                has_second ? vec_load(TT_SIMD_F32, c->s.weights, second)
                           : zero);
            *(tt__vec_u32 *)(c->s.w_pairs + at) = pair_of(low, high);
            low = vec_to_bf16(vec_load(TT_SIMD_F32, c->s.d_score, first));
            high = vec_to_bf16(has_second
                                   ? vec_load(TT_SIMD_F32, c->s.d_score, second)
                                   : zero);
            *(tt__vec_u32 *)(c->s.d_pairs + at) = pair_of(low, high);
            *(tt__vec_u16 *)(rows + first) = low;
            *(tt__vec_u16 *)(rows + second) = high;
        }
}

// The same where they stay floats.
static void round_rows(const span *c, const tile *t)
{
    for (int64_t i = 0; i < t->m; i++) {
        round_in_place(c->s.weights + i * TT_K_BLOCK, read_of(t, i));
        round_in_place(c->s.d_score + i * TT_K_BLOCK, read_of(t, i));
    }
}

// Where the operands of the five products of a tile are.
typedef struct operands {
    tt__rows q, d_o;                // left of the scores and their gradients
    tt__rows q_rows, d_o_rows;      // right of d_k and d_v
    const float *weights, *d_score; // left of d_v and d_k, transposed
    tt__rows d_rows;                // left of d_q
    int64_t unit;                   // elements of a product's k: 2 if pairs
} operands;

static operands pack_tile(const span *c, const tile *t)
{
    const tt_simd_attention_args *x = c->x;
    const int64_t width = padded_dim(x);
    const void *q = head_row(x, &x->q, c->b, c->h, t->q0);
    const void *d_o = head_row(x, &x->d_o, c->b, c->h, t->q0);
    if (c->pairs) {
        pack_row_pairs(x, q, x->q.row, t->m, c->s.q);
        pack_row_pairs(x, d_o, x->d_o.row, t->m, c->s.d_o);
        return (operands){{q, x->q.row / 2},
                          {d_o, x->d_o.row / 2},
                          {c->s.q, width},
                          {c->s.d_o, width},
                          c->s.w_pairs,
                          c->s.d_pairs,
                          {c->s.d_rows, TT_K_BLOCK / 2},
                          2};
    }
    const tt__rows q_rows = {c->s.q, width};
    const tt__rows d_o_rows = rows_of(x, d_o, x->d_o.row, t->m, c->s.d_o);
    pack_rows(x, q, x->q.row, t->m, x->scale * TT_LOG2_E, c->s.q);
    return (operands){q_rows,
                      d_o_rows,
                      q_rows,
                      d_o_rows,
                      c->s.weights,
                      c->s.d_score,
                      {c->s.d_score, TT_K_BLOCK},
                      1};
}

// Scores and the gradients of the weights: both are rows times columns.
static void find_scores(const span *c, const tile *t, const operands *o)
{
    tt__product p = {
        .a = o->q.data,
        .a_row = o->q.row,
        .a_step = 1,
        .b = c->s.keys,
        .b_row = TT_K_BLOCK,
        .c = c->s.weights,
        .c_row = TT_K_BLOCK,
        .m = t->m,
        .n = round_up(t->n, TT_LANES),
        .k = c->x->head_dim / o->unit,
        .is_pairs = c->pairs,
    };
    tile_multiply(&p, TT_BAND_SCORES, t->shift);
    p.a = o->d_o.data;
    p.a_row = o->d_o.row;
    p.b = c->s.values;
    p.c = c->s.d_score;
    tile_multiply(&p, TT_BAND_SCORES, t->shift);
}

static void add_gradients(const span *c, const tile *t, const operands *o,
                          tt__rows k_rows)
{
    const int64_t width = padded_dim(c->x), place = (t->k0 - c->k0) * width;
    tt__product p = {
        .a = o->weights,
        .a_row = 1,
        .a_step = TT_K_BLOCK,
        .b = o->d_o_rows.data,
        .b_row = o->d_o_rows.row,
        .c = c->s.d_v + place,
        .c_row = width,
        .m = t->n,
        .n = width,
        .k = tt__simd_blocks(t->m, o->unit),
        .adds = true,
        .is_pairs = c->pairs,
    };
    tile_multiply(&p, TT_BAND_SCATTER, t->shift);
    p.a = o->d_score;
    p.b = o->q_rows.data;
    p.b_row = o->q_rows.row;
    p.c = c->s.d_k + place;
    tile_multiply(&p, TT_BAND_SCATTER, t->shift);
    p.a = o->d_rows.data;
    p.a_row = o->d_rows.row;
    p.a_step = 1;
    p.b = k_rows.data;
    p.b_row = k_rows.row;
    p.c = c->d_q + t->q0 * width;
    p.m = t->m;
    p.k = tt__simd_blocks(t->n, o->unit);
    tile_multiply(&p, TT_BAND_GATHER, t->shift);
}

static void add_tile(const span *c, const tile *t, tt__rows k_rows)
{
    if (visible(t->m - 1, t->shift, t->n) == 0)
        return;
    const operands o = pack_tile(c, t);
    find_scores(c, t, &o);
    differentiate(c, t);
    if (c->pairs)
        round_tile(c, t);
    else if (c->x->type == TT_SIMD_BF16)
        round_rows(c, t);
    add_gradients(c, t, &o, k_rows);
}

// Brings n keys and values from k0 into the form of the products; returns the
// rows of keys.
static tt__rows pack_keys(const span *c, int64_t k0, int64_t n)
{
    const tt_simd_attention_args *x = c->x;
    const void *k = head_row(x, &x->k, c->b, c->kv, k0);
    const void *v = head_row(x, &x->v, c->b, c->kv, k0);
    if (c->pairs) {
        pack_pair_columns(x, k, x->k.row, n, c->s.keys);
        pack_pair_columns(x, v, x->v.row, n, c->s.values);
        pack_row_pairs(x, k, x->k.row, n, c->s.k_rows);
        return (tt__rows){c->s.k_rows, x->head_dim};
    }
    const tt__rows k_rows = rows_of(x, k, x->k.row, n, c->s.k_rows);
    pack_columns(x, k_rows, n, c->s.keys);
    pack_columns(x, rows_of(x, v, x->v.row, n, c->s.v_rows), n, c->s.values);
    return k_rows;
}

// All queries of head c->h against the span.
static void run_head(const span *c)
{
    const tt_simd_attention_args *x = c->x;
    const int64_t end = c->k0 + c->n;
    memset(c->d_q, 0, (size_t)(x->q_len * padded_dim(x)) * sizeof(float));
    find_delta(c);
    for (int64_t k0 = c->k0, n; k0 < end; k0 += n) {
        n = in_run(k0, min_i64(TT_K_BLOCK, end - k0), x->k_turn, x->k_gap);
        const tt__rows k_rows = pack_keys(c, k0, n);
        for (int64_t q0 = 0, m; q0 < x->q_len; q0 += m) {
            m = in_run(q0, min_i64(TT_Q_BLOCK, x->q_len - q0), x->q_turn,
                       x->q_gap);
            const tile t = {q0, m, k0, n, shift_of(x, q0, k0)};
            add_tile(c, &t, k_rows);
        }
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
    // Without pairs, queries were scaled by scale * log2 e already.
    unpack_rows(x, c->s.d_k, c->pairs ? x->scale : TT_LN_2, c->n,
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
        span c = {.x = x, .pairs = uses_pairs(x) && is_paired(&x->d_o)};
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
