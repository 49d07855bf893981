// route - reference kernels of route and its gradient: softmax, the largest few, slots
// in order, and the balance loss, one group (sample) after another.

#include "backend/ref/ref.h"
#include "ops/nn/moe.h"
#include "ops/ops.h"

#include <math.h>

enum { LOGITS, PLACE, DGATE, DBALANCE };

typedef struct router {
    const tt_site *site;
    const tt_args *args;
    int64_t experts, tokens, groups; // tokens of a group
    int64_t choices, slots;
    double *p;     // one token's probabilities
    double *count; // per expert
} router;

static router router_of(const tt_site *site, const tt_args *args)
{
    const tt_route_params *params = site->params;
    const tt_operand *x = &site->in[LOGITS];
    const int n = x->local.shape.ndim;
    router r = {.site = site,
                .args = args,
                .experts = tt_operand_dim(x, n - 1),
                .tokens = tt_operand_dim(x, n - 2),
                .choices = params->choices,
                .slots = params->slots,
                .p = args->scratch};
    r.groups = tt_operand_count(x) / (r.experts * r.tokens);
    r.count = r.p + r.experts;
    return r;
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    const tt_operand *x = &site->in[LOGITS];
    (void)backend;
    prepared_out->scratch_bytes =
        3 * tt_operand_dim(x, x->local.shape.ndim - 1) * 8;
    return TT_OK;
}

static void softmax(const router *r, int64_t token)
{
    const tt_dtype dtype = r->site->in[LOGITS].dtype;
    double most = -(double)INFINITY, sum = 0;
    for (int64_t e = 0; e < r->experts; e++) {
        r->p[e] =
            tt_dtype_load(dtype, r->args->in[LOGITS], token * r->experts + e);
        most = fmax(most, r->p[e]);
    }
    for (int64_t e = 0; e < r->experts; e++)
        sum += r->p[e] = exp(r->p[e] - most);
    for (int64_t e = 0; e < r->experts; e++)
        r->p[e] /= sum;
}

static int64_t expert_of(const router *r, int32_t place)
{
    return place < 0 ? -1 - place : place / r->slots;
}

// How many tokens of a group chose each expert first.
static void count_first(const router *r, const int32_t *place, int64_t group)
{
    for (int64_t e = 0; e < r->experts; e++)
        r->count[e] = 0;
    for (int64_t t = 0; t < r->tokens; t++)
        r->count[expert_of(r, place[(group * r->tokens + t) * r->choices])]++;
}

// ---- forward -------------------------------------------------------------

// The largest that is not chosen yet; of equals the first.
static int64_t best(const router *r, const int32_t *chosen, int64_t n)
{
    int64_t at = -1;
    for (int64_t e = 0; e < r->experts; e++) {
        bool is_free = true;
        for (int64_t c = 0; c < n; c++)
            is_free = is_free && chosen[c] != -1 - e;
        if (is_free && (at < 0 || r->p[e] > r->p[at]))
            at = e;
    }
    return at;
}

static void choose(const router *r, int64_t token)
{
    int32_t *place = (int32_t *)r->args->out[1] + token * r->choices;
    const tt_dtype dtype = r->site->out[0].dtype;
    double sum = 0;
    softmax(r, token);
    for (int64_t c = 0; c < r->choices; c++) {
        const int64_t e = best(r, place, c);
        place[c] = (int32_t)(-1 - e);
        sum += r->p[e];
    }
    for (int64_t c = 0; c < r->choices; c++)
        tt_dtype_store(dtype, r->args->out[0], token * r->choices + c,
                       r->p[-1 - place[c]] / sum);
}

// All first choices are served before any second choice. So when an expert is full, a
// token loses its second choice before another one loses its first.
static void give_slots(const router *r, int64_t group)
{
    int32_t *place = (int32_t *)r->args->out[1];
    for (int64_t e = 0; e < r->experts; e++)
        r->count[e] = 0;
    for (int64_t c = 0; c < r->choices; c++)
        for (int64_t t = 0; t < r->tokens; t++) {
            int32_t *at = &place[(group * r->tokens + t) * r->choices + c];
            const int64_t e = -1 - *at;
            if (r->count[e] < (double)r->slots)
                *at = (int32_t)(e * r->slots + (int64_t)r->count[e]++);
        }
}

static double balance(const router *r, int64_t group)
{
    double sum = 0;
    count_first(r, r->args->out[1], group);
    for (int64_t t = 0; t < r->tokens; t++) {
        softmax(r, group * r->tokens + t);
        for (int64_t e = 0; e < r->experts; e++)
            sum += r->count[e] * r->p[e];
    }
    return sum * (double)r->experts / (double)r->tokens;
}

static tt_status run_route(void *state, const tt_site *site,
                           const tt_args *args)
{
    const router r = router_of(site, args);
    double sum = 0;
    (void)state;
    for (int64_t t = 0; t < r.groups * r.tokens; t++)
        choose(&r, t);
    for (int64_t g = 0; g < r.groups; g++) {
        give_slots(&r, g);
        sum += balance(&r, g);
    }
    tt_dtype_store(site->out[2].dtype, args->out[2], 0, sum);
    return TT_OK;
}

// ---- backward ------------------------------------------------------------

// Adds the gradient of a token's gates to that of its probabilities.
static void add_gates(const router *r, int64_t token, double *dp)
{
    const int32_t *place =
        (const int32_t *)r->args->in[PLACE] + token * r->choices;
    double sum = 0, mean = 0;
    if (!tt_site_has(r->site, DGATE))
        return;
    for (int64_t c = 0; c < r->choices; c++)
        sum += r->p[expert_of(r, place[c])];
    for (int64_t c = 0; c < r->choices; c++)
        mean += tt_dtype_load(r->site->in[DGATE].dtype, r->args->in[DGATE],
                              token * r->choices + c) *
                r->p[expert_of(r, place[c])] / sum;
    for (int64_t c = 0; c < r->choices; c++)
        dp[expert_of(r, place[c])] +=
            (tt_dtype_load(r->site->in[DGATE].dtype, r->args->in[DGATE],
                           token * r->choices + c) -
             mean) /
            sum;
}

static void one_token(const router *r, int64_t token, double dbalance)
{
    double *dp = r->count + r->experts;
    double dot = 0;
    softmax(r, token);
    for (int64_t e = 0; e < r->experts; e++)
        dp[e] = dbalance * r->count[e];
    add_gates(r, token, dp);
    for (int64_t e = 0; e < r->experts; e++)
        dot += r->p[e] * dp[e];
    for (int64_t e = 0; e < r->experts; e++)
        tt_dtype_store(r->site->out[0].dtype, r->args->out[0],
                       token * r->experts + e, r->p[e] * (dp[e] - dot));
}

static tt_status run_route_grad(void *state, const tt_site *site,
                                const tt_args *args)
{
    const router r = router_of(site, args);
    double dbalance = 0;
    (void)state;
    if (tt_site_has(site, DBALANCE))
        dbalance =
            tt_dtype_load(site->in[DBALANCE].dtype, args->in[DBALANCE], 0) *
            (double)r.experts / (double)r.tokens;
    for (int64_t g = 0; g < r.groups; g++) {
        count_first(&r, args->in[PLACE], g);
        for (int64_t t = 0; t < r.tokens; t++)
            one_token(&r, g * r.tokens + t, dbalance);
    }
    return TT_OK;
}

const tt_kernel_def tt__ref_route_kernels[] = {
    {TT_KERNEL(ref, route), .prepare = prepare, .run = run_route},
    {TT_KERNEL(ref, route_grad), .prepare = prepare, .run = run_route_grad},
    {0},
};
