// route - the router of a mixture of experts: softmax, the few largest, and slots in
// order. One thread does a whole group (a sample), because its slots are given out one
// after another: who comes first decides who finds room.

#include "backend/cpu/simd/route.h"

#include "backend/cpu/simd/elementary.h"
#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"

#include <stdbool.h>

// Scratch for a group; every array has an entry per expert.
typedef struct room {
    float *p;    // one token's probabilities
    float *d;    // and their gradient
    double *sum; // of p over tokens
    int64_t *n;  // tokens that have a slot; that chose it first
} room;

int64_t TT_SYMBOL(tt__route_scratch_bytes)(int64_t experts)
{
    const int64_t bytes = experts * (int64_t)(2 * sizeof(float) +
                                              sizeof(double) + sizeof(int64_t));
    return (bytes + 63) / 64 * 64;
}

static room room_of(const tt_simd_route_args *a, int64_t group)
{
    char *at =
        a->scratch + group * TT_SYMBOL(tt__route_scratch_bytes)(a->experts);
    room r = {.n = (int64_t *)(void *)at};
    r.sum = (double *)(void *)(r.n + a->experts);
    r.p = (float *)(void *)(r.sum + a->experts);
    r.d = r.p + a->experts;
    return r;
}

static bool forks(const tt_simd_route_args *a)
{
    return a->groups > 1 &&
           a->groups * a->tokens * a->experts >= TT_FORK_ELEMENTS / 8;
}

TT_INLINE void softmax(tt_simd_type type, const void *x, int64_t n, float *p)
{
    float most = -INFINITY, sum = 0;
    for (int64_t e = 0; e < n; e++) {
        p[e] = load(type, x, e);
        most = p[e] > most ? p[e] : most;
    }
#pragma omp simd
    for (int64_t e = 0; e < n; e++)
        p[e] = v_exp(p[e] - most);
    for (int64_t e = 0; e < n; e++)
        sum += p[e];
#pragma omp simd
    for (int64_t e = 0; e < n; e++)
        p[e] /= sum;
}

TT_INLINE int64_t expert_of(const tt_simd_route_args *a, int32_t place)
{
    return place < 0 ? -1 - place : place / a->slots;
}

// ---- forward -------------------------------------------------------------

// The largest logit that is not chosen yet; of equals the first. Logits and not
// probabilities, which may be equal though logits are not.
TT_INLINE int64_t best(tt_simd_type type, const void *x, int64_t experts,
                       const int32_t *chosen, int64_t n)
{
    int64_t found = -1;
    float most = 0;
    for (int64_t e = 0; e < experts; e++) {
        const float v = load(type, x, e);
        if (found >= 0 && !(v > most))
            continue;
        bool is_free = true;
        for (int64_t c = 0; c < n; c++)
            is_free = is_free && chosen[c] != -1 - e;
        if (is_free) {
            found = e;
            most = v;
        }
    }
    return found;
}

TT_INLINE void choose(tt_simd_type type, const tt_simd_route_args *a,
                      int64_t token, const room *r)
{
    const void *x = at(type, a->logits, token * a->experts);
    int32_t *place = a->place + token * a->choices;
    float sum = 0;
    softmax(type, x, a->experts, r->p);
    for (int64_t c = 0; c < a->choices; c++) {
        const int64_t e = best(type, x, a->experts, place, c);
        place[c] = (int32_t)(-1 - e);
        sum += r->p[e];
    }
    for (int64_t c = 0; c < a->choices; c++)
        a->gate[token * a->choices + c] = r->p[-1 - place[c]] / sum;
    for (int64_t e = 0; e < a->experts; e++)
        r->sum[e] += (double)r->p[e];
}

static double weigh(const tt_simd_route_args *a, const room *r)
{
    double sum = 0;
    for (int64_t e = 0; e < a->experts; e++)
        sum += (double)r->n[e] * r->sum[e];
    return sum * (double)a->experts / (double)a->tokens;
}

// Turns choices into slots, as long as the expert has free ones. All first choices are
// served before any second choice.
static void give_slots(const tt_simd_route_args *a, int32_t *place,
                       const room *r)
{
    memset(r->n, 0, (size_t)a->experts * sizeof *r->n);
    for (int64_t c = 0; c < a->choices; c++)
        for (int64_t t = 0; t < a->tokens; t++) {
            int32_t *at = &place[t * a->choices + c];
            const int64_t e = -1 - *at;
            if (r->n[e] < a->slots)
                *at = (int32_t)(e * a->slots + r->n[e]++);
        }
}

// How many tokens of a group chose each expert first.
static void count_first(const tt_simd_route_args *a, const int32_t *place,
                        const room *r)
{
    memset(r->n, 0, (size_t)a->experts * sizeof *r->n);
    for (int64_t t = 0; t < a->tokens; t++)
        r->n[expert_of(a, place[t * a->choices])]++;
}

static void route_group(const tt_simd_route_args *a, int64_t group)
{
    const room r = room_of(a, group);
    const int64_t first = group * a->tokens;
    int32_t *place = a->place + first * a->choices;
    memset(r.sum, 0, (size_t)a->experts * sizeof *r.sum);
    for (int64_t t = first; t < first + a->tokens; t++) {
        if (a->type == TT_SIMD_BF16)
            choose(TT_SIMD_BF16, a, t, &r);
        else
            choose(TT_SIMD_F32, a, t, &r);
    }
    count_first(a, place, &r);
    a->balance[group] = weigh(a, &r);
    give_slots(a, place, &r);
}

void TT_SYMBOL(tt__experts_route)(const tt_simd_route_args *a)
{
#pragma omp parallel for schedule(static) if (forks(a))
    for (int64_t g = 0; g < a->groups; g++)
        route_group(a, g);
}

// ---- backward ------------------------------------------------------------

// Adds the gradient of a token's gates to that of its probabilities.
static void add_gates(const tt_simd_route_args *a, int64_t token, const room *r)
{
    const int32_t *place = a->place + token * a->choices;
    const float *d = a->gate + token * a->choices;
    float sum = 0, mean = 0;
    for (int64_t c = 0; c < a->choices; c++)
        sum += r->p[expert_of(a, place[c])];
    for (int64_t c = 0; c < a->choices; c++)
        mean += d[c] * r->p[expert_of(a, place[c])] / sum;
    for (int64_t c = 0; c < a->choices; c++)
        r->d[expert_of(a, place[c])] += (d[c] - mean) / sum;
}

TT_INLINE void grad_token(tt_simd_type type, const tt_simd_route_args *a,
                          int64_t token, const room *r)
{
    const int64_t n = a->experts;
    float dot = 0;
    softmax(type, at(type, a->logits, token * n), n, r->p);
    for (int64_t e = 0; e < n; e++)
        r->d[e] = a->d_balance * (float)r->n[e];
    if (a->gate != NULL)
        add_gates(a, token, r);
    for (int64_t e = 0; e < n; e++)
        dot += r->p[e] * r->d[e];
    void *out = at_mut(type, a->d_logits, token * n);
    for (int64_t e = 0; e < n; e++)
        store(type, out, e, r->p[e] * (r->d[e] - dot));
}

static void grad_group(const tt_simd_route_args *a, int64_t group)
{
    const room r = room_of(a, group);
    const int64_t first = group * a->tokens;
    count_first(a, a->place + first * a->choices, &r);
    for (int64_t t = first; t < first + a->tokens; t++) {
        if (a->type == TT_SIMD_BF16)
            grad_token(TT_SIMD_BF16, a, t, &r);
        else
            grad_token(TT_SIMD_F32, a, t, &r);
    }
}

void TT_SYMBOL(tt__route_grad)(const tt_simd_route_args *a)
{
#pragma omp parallel for schedule(static) if (forks(a))
    for (int64_t g = 0; g < a->groups; g++)
        grad_group(a, g);
}
