// sampler - draws the next token.
//
// A vocabulary has 50,000 tokens and more, and top_k or top_p usually keeps a few
// of them. Sorting all for each token would cost more than needed. A binary heap is
// built in O(n), and then only as many are taken out as are kept, in O(log n) each.
// Without top_k and top_p nothing is sorted at all.
//
// Everything is computed in double and in a fixed order, and equal logits are
// ordered by id, so that the same seed draws the same token on every machine.

#include "text/sampler.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <math.h>

typedef struct candidate {
    double logit;
    int32_t id;
} candidate;

struct tt_sampler {
    tt_sampler_options options;
    uint64_t key;
    int64_t room;
    candidate *heap; // the end of it: taken out, sorted
    double *weight;  // of the candidates in the order of the draw
};

const tt_opt tt_sampler_option_table[] = {
    {"temperature", "0.8", "0: always the likeliest token; 1: as trained",
     TT_OPT_F64, offsetof(tt_sampler_options, temperature), NULL, 0, 1e6},
    {"top_k", "0", "choose among the likeliest this many; 0: all", TT_OPT_I64,
     offsetof(tt_sampler_options, top_k), NULL, 0, INT32_MAX},
    {"top_p", "1", "choose among the likeliest that reach this probability",
     TT_OPT_F64, offsetof(tt_sampler_options, top_p), NULL, 0, 1},
    {"seed", "1", "the same seed gives the same text", TT_OPT_I64,
     offsetof(tt_sampler_options, seed), NULL, 0, 9e15},
    {0},
};

tt_status tt_sampler_create(const tt_sampler_options *options, int64_t n,
                            tt_sampler **sampler_out)
{
    tt_sampler *s = tt_alloc(sizeof *s);
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to draw tokens");
    s->options = *options;
    s->key = tt_rng_key((uint64_t)options->seed, "sample", 0);
    s->room = n;
    s->heap = tt_alloc(n * (int64_t)sizeof *s->heap);
    s->weight = tt_alloc(n * (int64_t)sizeof *s->weight);
    if (s->heap == NULL || s->weight == NULL) {
        tt_sampler_destroy(s);
        return tt_fail(TT_ERR_NOMEM, "no memory to draw tokens");
    }
    *sampler_out = s;
    return TT_OK;
}

void tt_sampler_destroy(tt_sampler *sampler)
{
    if (sampler == NULL)
        return;
    tt_free(sampler->heap);
    tt_free(sampler->weight);
    tt_free(sampler);
}

// ---- the heap ------------------------------------------------------------

static bool is_before(const candidate *a, const candidate *b)
{
    return a->logit != b->logit ? a->logit > b->logit : a->id < b->id;
}

static void sink(candidate *heap, int64_t n, int64_t i)
{
    const candidate moved = heap[i];
    for (;;) {
        int64_t child = 2 * i + 1;
        if (child + 1 < n && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (child >= n || !is_before(&heap[child], &moved))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

static void make_heap(candidate *heap, int64_t n)
{
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sink(heap, n, i);
}

// Swaps the largest of n candidates to the end and repairs the heap of the others.
static void take_first(candidate *heap, int64_t n)
{
    const candidate first = heap[0];
    heap[0] = heap[n - 1];
    heap[n - 1] = first;
    sink(heap, n - 1, 0);
}

// ---- drawing -------------------------------------------------------------

static tt_status check(const double *logits, int64_t n, int64_t *best_out)
{
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(logits[i]) || logits[i] == HUGE_VAL)
            return tt_fail(TT_ERR_STATE,
                           "the logit of token %lld is %s: the weights are "
                           "broken, or training diverged",
                           (long long)i, isnan(logits[i]) ? "NaN" : "infinite");
        if (logits[i] > -HUGE_VAL && (best < 0 || logits[i] > logits[best]))
            best = i;
    }
    if (best < 0)
        return tt_fail(TT_ERR_STATE, "there is no token to choose from");
    *best_out = best;
    return TT_OK;
}

static double weight_of(const tt_sampler *s, double logit, double top)
{
    return exp((logit - top) / s->options.temperature);
}

// The index of the weight that the uniform number u falls on; the weights add up to
// `sum`.
static int64_t fall(const double *weight, int64_t n, double sum, double u)
{
    double left = u * sum;
    int64_t i = 0, last = 0;
    for (; i < n; i++) {
        if (weight[i] > 0)
            last = i;
        left -= weight[i];
        if (left < 0)
            return i;
    }
    return last; // u * sum was not reached because of rounding
}

// All tokens, in the order of their ids.
static int32_t draw_all(tt_sampler *s, const double *logits, int64_t n,
                        double top, double u)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        s->weight[i] = weight_of(s, logits[i], top);
        sum += s->weight[i];
    }
    return (int32_t)fall(s->weight, n, sum, u);
}

// Draws among the likeliest tokens. With top_k the sum for top_p is over these k,
// else over all tokens.
static int32_t draw_few(tt_sampler *s, const double *logits, int64_t n,
                        double top, double u)
{
    const tt_sampler_options *o = &s->options;
    const bool has_k = o->top_k > 0 && o->top_k < n;
    const int64_t most = has_k ? o->top_k : n;
    double sum = 0, kept = 0;
    int64_t n_kept = 0;
    for (int64_t i = 0; i < n; i++) {
        s->heap[i] = (candidate){logits[i], (int32_t)i};
        if (!has_k)
            sum += weight_of(s, logits[i], top);
    }
    make_heap(s->heap, n);
    // The i-th largest ends up at n - 1 - i.
    int64_t taken = 0;
    for (; has_k && taken < most; taken++) {
        take_first(s->heap, n - taken);
        sum += weight_of(s, s->heap[n - 1 - taken].logit, top);
    }
    while (n_kept < most && (n_kept == 0 || kept < o->top_p * sum)) {
        if (n_kept == taken)
            take_first(s->heap, n - taken++);
        s->weight[n_kept] = weight_of(s, s->heap[n - 1 - n_kept].logit, top);
        kept += s->weight[n_kept++];
    }
    return s->heap[n - 1 - fall(s->weight, n_kept, kept, u)].id;
}

tt_status tt_sampler_draw(tt_sampler *sampler, const double *logits, int64_t n,
                          int64_t index, int32_t *id_out)
{
    const tt_sampler_options *o = &sampler->options;
    int64_t best = 0;
    if (n < 1 || n > sampler->room)
        return tt_fail(TT_ERR_ARG, "logits of %lld tokens, made for %lld",
                       (long long)n, (long long)sampler->room);
    TT_TRY(check(logits, n, &best));
    const double u = tt_rng_uniform(sampler->key, (uint64_t)index);
    if (o->temperature == 0 || o->top_k == 1 || o->top_p == 0)
        *id_out = (int32_t)best;
    else if (o->top_p < 1 || (o->top_k > 0 && o->top_k < n))
        *id_out = draw_few(sampler, logits, n, logits[best], u);
    else
        *id_out = draw_all(sampler, logits, n, logits[best], u);
    return TT_OK;
}
