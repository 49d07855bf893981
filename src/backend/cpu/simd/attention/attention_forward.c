// attention_forward - FlashAttention's forward pass for caches instead of shared
// memory.
//
// A task is one chunk: up to TT_Q_CHUNK queries of one head. It walks over the keys
// once, block by block, and never holds a whole row of scores. For every query it keeps
// the running maximum, the sum of exponentials and the weighted sum of values:
//
//   for each block of keys
//       scores  = Q K^T                     a tile of TT_Q_BLOCK x TT_K_BLOCK, in cache
//       max'    = max(max, row maxima)
//       factor  = exp2(max - max')          what earlier sums must be multiplied by
//       P       = exp2(scores - max')
//       sum     = sum factor + row sums of P
//       values  = values factor + P V
//   o = values / sum      lse = max + log(sum)
//
// Scores are multiplied by log2 e too, so that exponentials have base 2: those are
// cheaper. Keys are transposed once per block and chunk, so a chunk has several blocks
// of queries; the copy is then a few percent of the products. With a causal mask,
// blocks of keys that no query of the chunk sees are skipped, and so are the panels
// of a tile outside of the band (tile.h).

#include "backend/cpu/simd/attention/attention_block.h"
#include "backend/cpu/simd/attention/attention_pairs.h"
#include "backend/cpu/simd/elementary.h"
#include "backend/cpu/simd/parallel.h"

#include <omp.h>

enum { TT_Q_CHUNK = 4 * TT_Q_BLOCK };

// The scratch of one thread.
typedef struct space {
    float *q;      // TT_Q_CHUNK x width, times scale * log2 e; not with pairs
    float *keys;   // head_dim x TT_K_BLOCK
    float *rows;   // TT_K_BLOCK x width: keys before transposing, then values
    float *scores; // TT_Q_BLOCK x TT_K_BLOCK
    float *pairs;  // the same as pairs of bf16, where these are used
    float *out;    // TT_Q_CHUNK x width
    float *max, *sum;
} space;

// One chunk: queries [q0, q0 + n) of head h of sample b.
typedef struct chunk {
    const tt_simd_attention_args *x;
    int64_t b, h, q0, n;
    space s;
} chunk;

static int64_t cut(const tt_simd_attention_args *x, float *scratch, space *s)
{
    const int64_t width = padded_dim(x);
    tt__scratch from = {scratch, 0};
    s->q = take(&from, TT_Q_CHUNK * width);
    s->keys = take(&from, TT_K_BLOCK * width);
    s->rows = take(&from, TT_K_BLOCK * width);
    s->scores = take(&from, (int64_t)TT_Q_BLOCK * TT_K_BLOCK);
    s->pairs = take(&from, (int64_t)TT_Q_BLOCK * TT_K_BLOCK / 2);
    s->out = take(&from, TT_Q_CHUNK * width);
    s->max = take(&from, TT_Q_CHUNK);
    s->sum = take(&from, TT_Q_CHUNK);
    return from.used;
}

int64_t TT_SYMBOL(tt__attention_forward_bytes)(const tt_simd_attention_args *x)
{
    space s;
    return cut(x, NULL, &s) * 4 * x->threads;
}

// Turns a row of n scores into weights, exp2(score unit - top); returns their sum.
TT_INLINE float weigh_row(float *s, float unit, int64_t n, float top)
{
    float total = 0.0f;
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < n; j++) {
        const float w = v_exp2_below(s[j] * unit - top);
        s[j] = w;
        total += w;
    }
    return total;
}

TT_INLINE void scale_row(float *row, int64_t n, float factor)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        row[j] *= factor;
}

// A block of m queries, from row i0 of the chunk, and n keys.
typedef struct block {
    int64_t i0, m, n, shift;
} block;

// How far the panel of row i is read by the next product.
TT_INLINE int64_t read_of(const block *b, int64_t i)
{
    const int64_t last = i / TT_MR * TT_MR + TT_MR - 1;
    return round_up(visible(last, b->shift, b->n), TT_LANES);
}

// Updates the maxima of the rows. `factor` is what the earlier sums of a row must be
// multiplied by. Scores that a row does not see become -inf.
TT_INLINE void raise_maxima(const chunk *c, const block *b, float unit,
                            float *factor)
{
    float *max = c->s.max + b->i0, top[TT_Q_BLOCK];
    for (int64_t i = 0; i < b->m; i++) {
        float *row = c->s.scores + i * TT_K_BLOCK;
        const int64_t read = read_of(b, i);
        for (int64_t j = visible(i, b->shift, b->n); j < read; j++)
            row[j] = -INFINITY;
        top[i] = unit * max_of(TT_SIMD_F32, row, read);
    }
#pragma omp simd
    for (int64_t i = 0; i < b->m; i++) {
        const float old = max[i], now = top[i] > old ? top[i] : old;
        factor[i] = now == old ? 1.0f : v_exp2_below(old - now);
        max[i] = now;
    }
}

// Scores become weights.
TT_INLINE void weigh(const chunk *c, const block *b)
{
    const int64_t width = padded_dim(c->x);
    const bool pairs = uses_pairs(c->x);
    const float unit = pairs ? c->x->scale * TT_LOG2_E : 1.0f;
    float factor[TT_Q_BLOCK];
    raise_maxima(c, b, unit, factor);
    for (int64_t i = 0; i < b->m; i++) {
        float *row = c->s.scores + i * TT_K_BLOCK;
        const int64_t read = read_of(b, i), at = b->i0 + i;
        if (visible(i, b->shift, b->n) == 0)
            memset(row, 0, (size_t)read * sizeof(float));
        else
            c->s.sum[at] = c->s.sum[at] * factor[i] +
                           weigh_row(row, unit, read, c->s.max[at]);
        if (factor[i] != 1.0f)
            scale_row(c->s.out + at * width, width, factor[i]);
        if (pairs)
            round_row(row, read, (uint16_t *)c->s.pairs + i * TT_K_BLOCK);
        else if (c->x->type == TT_SIMD_BF16)
            round_in_place(row, read);
    }
}

// Brings n keys and values from k0 into the form of the products; returns where
// the values are.
static tt__rows pack_keys(const chunk *c, int64_t k0, int64_t n)
{
    const tt_simd_attention_args *x = c->x;
    const int64_t kv = c->h / (x->q_heads / x->kv_heads);
    const void *k = head_row(x, &x->k, c->b, kv, k0);
    const void *v = head_row(x, &x->v, c->b, kv, k0);
    if (uses_pairs(x)) {
        pack_pair_columns(x, k, x->k.row, n, c->s.keys);
        pack_row_pairs(x, v, x->v.row, n, c->s.rows);
        return (tt__rows){c->s.rows, x->head_dim};
    }
    pack_columns(x, rows_of(x, k, x->k.row, n, c->s.rows), n, c->s.keys);
    return rows_of(x, v, x->v.row, n, c->s.rows);
}

// m queries from i0 of the chunk times n keys.
static tt__product score_product(const chunk *c, int64_t i0, int64_t m,
                                 int64_t n)
{
    const tt_simd_attention_args *x = c->x;
    tt__product p = {
        .a = c->s.q + i0 * padded_dim(x),
        .a_row = padded_dim(x),
        .a_step = 1,
        .b = c->s.keys,
        .b_row = TT_K_BLOCK,
        .c = c->s.scores,
        .c_row = TT_K_BLOCK,
        .m = m,
        .n = round_up(n, TT_LANES),
        .k = x->head_dim,
    };
    if (uses_pairs(x)) {
        p.a = head_row(x, &x->q, c->b, c->h, c->q0 + i0);
        p.a_row = x->q.row / 2;
        p.k = x->head_dim / 2;
        p.is_pairs = true;
    }
    return p;
}

// The weights of m queries from i0 times n values.
static tt__product value_product(const chunk *c, int64_t i0, int64_t m,
                                 int64_t n, tt__rows values)
{
    const int64_t width = padded_dim(c->x);
    tt__product p = {
        .a = c->s.scores,
        .a_row = TT_K_BLOCK,
        .a_step = 1,
        .b = values.data,
        .b_row = values.row,
        .c = c->s.out + i0 * width,
        .c_row = width,
        .m = m,
        .n = width,
        .k = n,
        .adds = true,
    };
    if (uses_pairs(c->x)) {
        p.a = c->s.pairs;
        p.a_row = TT_K_BLOCK / 2;
        p.k = (n + 1) / 2;
        p.is_pairs = true;
    }
    return p;
}

// All queries of the chunk against keys [k0, k0 + n).
static void add_keys(const chunk *c, int64_t k0, int64_t n)
{
    const tt__rows values = pack_keys(c, k0, n);
    for (int64_t i0 = 0, m; i0 < c->n; i0 += m) {
        m = in_run(c->q0 + i0, min_i64(TT_Q_BLOCK, c->n - i0), c->x->q_turn,
                   c->x->q_gap);
        const int64_t shift = shift_of(c->x, c->q0 + i0, k0);
        if (visible(m - 1, shift, n) == 0)
            continue;
        tt__product p = score_product(c, i0, m, n);
        tile_multiply(&p, TT_BAND_SCORES, shift);
        weigh(c, &(block){i0, m, n, shift});
        p = value_product(c, i0, m, n, values);
        tile_multiply(&p, TT_BAND_GATHER, shift);
    }
}

static void store_lse(const chunk *c)
{
    const tt_simd_attention_args *x = c->x;
    float *lse = x->lse + (c->b * x->q_heads + c->h) * x->q_len + c->q0;
    const float *max = c->s.max, *sum = c->s.sum;
#pragma omp simd
    for (int64_t i = 0; i < c->n; i++)
        lse[i] = sum[i] == 0.0f ? -INFINITY : max[i] * TT_LN_2 + v_log(sum[i]);
}

// Divides by the sums and stores: a row that saw nothing is 0.
static void finish(const chunk *c)
{
    tt_simd_attention_args to = *c->x;
    const int64_t width = padded_dim(&to);
    const float *sum = c->s.sum;
    if (to.is_wide)
        to.type = TT_SIMD_F32;
    if (to.lse != NULL)
        store_lse(c);
    for (int64_t i = 0; i < c->n; i++) {
        const float factor = sum[i] == 0.0f ? 0.0f : 1.0f / sum[i];
        unpack_rows(&to, c->s.out + i * width, factor, 1,
                    head_row(&to, &to.o, c->b, c->h, c->q0 + i), to.o.row);
    }
}

static void run_chunk(const chunk *c)
{
    const tt_simd_attention_args *x = c->x;
    const int64_t width = padded_dim(x);
    if (!uses_pairs(x))
        pack_rows(x, head_row(x, &x->q, c->b, c->h, c->q0), x->q.row, c->n,
                  x->scale * TT_LOG2_E, c->s.q);
    memset(c->s.out, 0, (size_t)(c->n * width) * sizeof(float));
    for (int64_t i = 0; i < c->n; i++) {
        c->s.max[i] = -INFINITY;
        c->s.sum[i] = 0.0f;
    }
    for (int64_t k0 = 0, n; k0 < x->k_len; k0 += n) {
        n = in_run(k0, min_i64(TT_K_BLOCK, x->k_len - k0), x->k_turn, x->k_gap);
        if (shift_of(x, c->q0 + c->n - 1, k0) < 0)
            break; // later keys lie further ahead
        add_keys(c, k0, n);
    }
    finish(c);
}

void TT_SYMBOL(tt__attention_forward)(const tt_simd_attention_args *x)
{
    const int64_t chunks = tt__simd_blocks(x->q_len, TT_Q_CHUNK);
    const int64_t tasks = x->n_batch * x->q_heads * chunks;
    space whole;
    const int64_t stride = cut(x, NULL, &whole);
    const bool forks = x->q_len * x->k_len * tasks > 4096;
#pragma omp parallel num_threads(x->threads) if (forks)
    {
        chunk c = {.x = x};
        cut(x, (float *)x->scratch + omp_get_thread_num() * stride, &c.s);
#pragma omp for schedule(dynamic, 1)
        for (int64_t task = 0; task < tasks; task++) {
            c.b = task / (x->q_heads * chunks);
            c.h = task / chunks % x->q_heads;
            c.q0 = task % chunks * TT_Q_CHUNK;
            c.n = min_i64(TT_Q_CHUNK, x->q_len - c.q0);
            run_chunk(&c);
        }
    }
}
