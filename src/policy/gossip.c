// gossip - each replica speaks with a few neighbours only, and all drift together.
//
//   x_i = (x_i + sum of x_j over its neighbours j) / (neighbours + 1)
//
// Replicas lie on a circle, and each gets the weights of those that are certain numbers
// before it. So all have as many neighbours, and the mean over all replicas stays what it
// is. The model is that mean.
//
//   graph         numbers                       8 replicas
//   ring          1, -1                         1 7
//   torus         1, -1, c, -c                  1 7 3 5        c: nearest to the root
//   exponential   1, 2, 4, ...                  1 2 4
//   halton        n times 1/2, 1/4, 3/4, ...    4 2 6 1        log2 n, and until all hear of all
//   complete      all others: the mean over all
//   shifts        what exchange.shifts says
//
// With `turns` a replica speaks with one neighbour at a time, another one after each
// agreement: half of the weights come from it. With exponential that makes all replicas
// equal after log2 n agreements, if n is a power of two.
//
// With a codec neighbours know a public copy of each other's weights, and what a replica
// has changed since is sent as a code (CHOCO; pass/replicas_mix.c). They go the part `gamma`
// of the way.
//
//   sent   the weights, or a code, once for each neighbour

#include "base/alloc.h"
#include "policy/mix.h"
#include "policy/policy.h"

#include <math.h>

typedef enum tt_gossip_graph {
    TT_GOSSIP_RING,
    TT_GOSSIP_TORUS,
    TT_GOSSIP_EXPONENTIAL,
    TT_GOSSIP_HALTON,
    TT_GOSSIP_COMPLETE,
    TT_GOSSIP_SHIFTS,
} tt_gossip_graph;

typedef struct tt_gossip_params {
    int64_t every;
    int graph; // tt_gossip_graph
    bool turns;
    tt_i64s shifts;
    double gamma;
} tt_gossip_params;

#define AT(field) offsetof(tt_gossip_params, field)

static const tt_opt options[] = {
    {"every", "1", "steps between two agreements", TT_OPT_I64, AT(every), NULL,
     1, 1e9},
    {"graph", "ring", "who speaks with whom", TT_OPT_CHOICE, AT(graph),
     "ring|torus|exponential|halton|complete|shifts"},
    {"turns", "false", "one neighbour after another, not all at once",
     TT_OPT_BOOL, AT(turns)},
    {"shifts", "",
     "graph=shifts: numbers of replicas from a neighbour to the one that "
     "hears it",
     TT_OPT_I64S, AT(shifts), NULL, -65536, 65536},
    {"gamma", "0.1",
     "with a codec: how far a replica goes to what it knows of its neighbours",
     TT_OPT_F64, AT(gamma), NULL, 0, 1},
    {0},
};

// ---- neighbours ----------------------------------------------------------

enum { MOST = 16 }; // neighbours

typedef struct circle {
    int64_t replicas;
    int64_t *by;
    int n;
} circle;

static void add(circle *c, int64_t shift)
{
    shift = (shift % c->replicas + c->replicas) % c->replicas;
    for (int i = 0; i < c->n; i++)
        if (c->by[i] == shift)
            return;
    if (shift != 0 && c->n < MOST)
        c->by[c->n++] = shift;
}

static void add_ring(circle *c, int64_t shift)
{
    add(c, shift);
    add(c, -shift);
}

static int64_t divisor(int64_t a, int64_t b)
{
    return b == 0 ? a : divisor(b, a % b);
}

// In so many groups replicas hear of each other; 1: all do.
static int64_t groups(const circle *c)
{
    int64_t common = c->replicas;
    for (int i = 0; i < c->n; i++)
        common = divisor(common, c->by[i]);
    return common;
}

// The first numbers of the Halton sequence to base 2: log2 of the replicas, and more until
// all hear of each other.
static void add_halton(circle *c)
{
    for (int64_t i = 1, most = 2;
         i < c->replicas && (most <= c->replicas || groups(c) > 1);
         i++, most *= 2) {
        double part = 0, digit = 0.5;
        for (int64_t k = i; k > 0; k /= 2, digit /= 2)
            part += digit * (double)(k % 2);
        add(c, (int64_t)((double)c->replicas * part));
    }
}

static int circle_of(const tt_gossip_params *p, int64_t replicas, int64_t *by)
{
    circle c = {replicas, by, 0};
    switch ((tt_gossip_graph)p->graph) {
    case TT_GOSSIP_RING:
        add_ring(&c, 1);
        break;
    case TT_GOSSIP_TORUS:
        add_ring(&c, 1);
        add_ring(&c, (int64_t)lround(sqrt((double)replicas)));
        break;
    case TT_GOSSIP_EXPONENTIAL:
        for (int64_t shift = 1; shift < replicas; shift *= 2)
            add(&c, shift);
        break;
    case TT_GOSSIP_HALTON:
        add_halton(&c);
        break;
    case TT_GOSSIP_COMPLETE:
        break;
    case TT_GOSSIP_SHIFTS:
        for (int i = 0; i < p->shifts.n; i++)
            add(&c, p->shifts.v[i]);
        break;
    }
    return c.n;
}

// One of them at a time, or all.
static int neighbours(const tt_gossip_params *p, int64_t replicas, int variant,
                      int64_t *by)
{
    const int n = circle_of(p, replicas, by);
    if (!p->turns || n == 0)
        return n;
    by[0] = by[variant];
    return 1;
}

static int variants(const void *params, int64_t replicas)
{
    const tt_gossip_params *p = params;
    int64_t by[MOST];
    const int n = circle_of(p, replicas, by);
    return p->turns && n > 0 ? n : 1;
}

// Whether what one replica knows comes to all others.
static tt_status check(const void *params, int64_t replicas)
{
    const tt_gossip_params *p = params;
    int64_t by[MOST];
    const int n = circle_of(p, replicas, by);
    const int64_t common = groups(&(circle){replicas, by, n});
    if (p->graph == TT_GOSSIP_COMPLETE || common == 1)
        return TT_OK;
    return n == 0
               ? tt_fail(TT_ERR_ARG, "exchange.graph=shifts has no neighbour: "
                                     "exchange.shifts=1 would do")
               : tt_fail(TT_ERR_ARG,
                         "exchange.graph: %lld replicas would fall into "
                         "%lld groups that never hear of each other; "
                         "exchange.graph=ring would do",
                         (long long)replicas, (long long)common);
}

static bool is_due(const void *params, int64_t replicas, int64_t step,
                   int variant)
{
    const tt_gossip_params *p = params;
    return step % p->every == 0 &&
           step / p->every % variants(params, replicas) == variant;
}

// ---- weights -------------------------------------------------------------

// All that it gets counts as much as its own.
static bool mix(const void *params, int64_t replicas, int variant, double *w)
{
    int64_t by[MOST];
    const int n = neighbours(params, replicas, variant, by);
    for (int64_t r = 0; r < replicas && n > 0; r++) {
        w[r * replicas + r] = 1 / (double)(n + 1);
        for (int i = 0; i < n; i++)
            w[r * replicas + (r - by[i] + replicas) % replicas] =
                1 / (double)(n + 1);
    }
    return n > 0;
}

static double gamma_of(const void *params)
{
    return ((const tt_gossip_params *)params)->gamma;
}

static tt_status take(tt_builder *b, tt_agreement *a)
{
    a->x_out = a->got[0];
    return b->status;
}

extern const tt_policy_def tt_policy_gossip;

static double rate(const void *params, int64_t replicas, int variant)
{
    double *w = tt_alloc(replicas * replicas * (int64_t)sizeof *w);
    double rate = 0;
    if (w != NULL &&
        tt_policy_mix(&tt_policy_gossip, params, replicas, variant, w))
        rate = tt_policy_mix_rate(w, replicas);
    tt_free(w);
    return rate;
}

static const char *const samples[] = {
    "graph=ring",
    "graph=torus every=2",
    "graph=exponential",
    "graph=exponential turns=true",
    "graph=halton turns=true",
    "graph=complete",
    "graph=shifts shifts=3,1",
    NULL,
};

const tt_policy_def tt_policy_gossip = {
    .name = "gossip",
    .doc = "Replicas take the mean with a few neighbours on a fixed graph.",
    .paper = "D-PSGD Lian 2017; GossipGraD Daily 2018; exponential graphs "
             "Ying 2021; MALT Li 2015; CHOCO Koloskova 2019",
    .kind = TT_POLICY_STATIC,
    .options = options,
    .params_bytes = sizeof(tt_gossip_params),
    .check = check,
    .variants = variants,
    .is_due = is_due,
    .mix = mix,
    .gamma = gamma_of,
    .take = take,
    .rate = rate,
    .samples = samples,
};
