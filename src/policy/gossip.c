// gossip - each replica speaks with a few neighbours only, and all drift together.
//
//   x_i = (x_i + sum of x_j over its neighbours j) / (neighbours + 1)
//
// Graphs are in gossip_graph.c. On a circle all have as many neighbours, so the mean over all
// replicas stays what it is. Where they have not, an edge between i and j counts for
// 1 / (1 + the larger number of neighbours) on both sides (Metropolis), and the rest is the
// replica's own: then the mean stays, too. The model is that mean.
//
// With `turns` a replica speaks with one neighbour at a time, another one after each
// agreement: half of the weights come from it. With exponential, and with butterfly, that
// makes all replicas equal after log2 n agreements, if n is a power of two.
//
// With a codec neighbours know a public copy of each other's weights, and what a replica
// has changed since is sent as a code (CHOCO; pass/replicas_mix.c). They go the part `gamma`
// of the way; by default that is the part of a change that a code says (job_gamma.c).
//
// With `tracking` neighbours also mix the steps that they make, so that each replica goes
// where all of them would go on average, and not only where its own samples pull it (DSGT):
//
//   d = what the optimiser did since the last agreement
//   y = mix of y + d - d before        its mean over all replicas is that of d
//   x = mix of (x - y)                 x as it was before d
//
// The optimiser's step takes the place of the learning rate times the gradient, so every
// optimiser will do, and so will several steps.
//
// With `push` an edge may go one way only (SGP). Nobody knows then how many others its
// neighbours hear, so no weights can be found with which both rows and columns of the matrix
// add up to 1. Those who are heard by k others divide what they have into k + 1 equal parts:
// columns do, and nothing is lost. Rows do not, so that some come to have more than others:
//
//   s_i = mix of s      a sum of weights           0 <-> 1 --> 2        masses 1, 1, 1
//   m_i = mix of m      its mass, 1 at first       ^           |        then 4/3, 5/6, 5/6
//   x_i = s_i / m_i     the weights                '-----------'        ...
//
// Steps are made at x and count for s, so s - x is a state. The model is the mean of s, which
// mixing leaves as it is; where every replica hears and is heard by as many, m stays 1.
//
//   sent   the weights, or a code, once for each neighbour; with `tracking` twice as much

#include "policy/gossip.h"

#include "base/alloc.h"
#include "ops/arith.h"
#include "policy/mix.h"
#include "policy/policy.h"

#include <math.h>

#define AT(field) offsetof(tt_gossip_params, field)

static const tt_opt options[] = {
    {"every", "1", "steps between two agreements", TT_OPT_I64, AT(every), NULL,
     1, 1e9},
    {"graph", "ring", "who speaks with whom", TT_OPT_CHOICE, AT(graph),
     "ring|torus|exponential|halton|butterfly|complete|shifts|edges|cycle|"
     "arrows"},
    {"turns", "false", "one neighbour after another, not all at once",
     TT_OPT_BOOL, AT(turns)},
    {"tracking", "false",
     "neighbours mix their steps too, so that all follow the mean step",
     TT_OPT_BOOL, AT(tracking)},
    {"push", "false",
     "each divides what it has between those who hear it (push-sum), so that "
     "the mean stays where nobody answers",
     TT_OPT_BOOL, AT(push)},
    {"shifts", "",
     "graph=shifts: numbers of replicas from a neighbour to the one that "
     "hears it",
     TT_OPT_I64S, AT(shifts), NULL, -65536, 65536},
    {"edges", "",
     "graph=edges: who speaks with whom, 0-1,1-2 between replicas 0 and 1, 1 "
     "and 2; graph=arrows: only from the first to the second",
     TT_OPT_STR, AT(edges)},
    {"gamma", "0",
     "with a codec: how far a replica goes to what it knows of its neighbours; "
     "0: as the codec allows",
     TT_OPT_F64, AT(gamma), NULL, 0, 1},
    {0},
};

static tt_status check(const void *params, int64_t replicas)
{
    return tt__gossip_check(params, replicas);
}

static int variants(const void *params, int64_t replicas)
{
    return tt__gossip_turns(params, replicas);
}

static bool is_due(const void *params, int64_t replicas, int64_t step,
                   int variant)
{
    const tt_gossip_params *p = params;
    return step % p->every == 0 &&
           step / p->every % variants(params, replicas) == variant;
}

// ---- weights -------------------------------------------------------------

static double heard(const double *w, int64_t n, int64_t r)
{
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += j == r ? 0 : w[r * n + j] != 0;
    return sum;
}

// The diagonal holds the numbers of neighbours until all weights are there.
static void weigh(double *w, int64_t n)
{
    for (int64_t r = 0; r < n; r++)
        w[r * n + r] = heard(w, n, r);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            if (i != j && w[i * n + j] != 0)
                w[i * n + j] = 1 / (1 + fmax(w[i * n + i], w[j * n + j]));
    for (int64_t i = 0; i < n; i++) {
        const double most = w[i * n + i];
        double rest = 1;
        bool is_even = true;
        for (int64_t j = 0; j < n; j++)
            if (i != j && w[i * n + j] != 0) {
                rest -= w[i * n + j];
                is_even &= w[i * n + j] == 1 / (1 + most);
            }
        w[i * n + i] = is_even ? 1 / (1 + most) : rest;
    }
}

// Column j: equal parts for itself and all who hear it.
static void divide(double *w, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        double parts = 1;
        for (int64_t i = 0; i < n; i++)
            parts += w[i * n + j] != 0;
        w[j * n + j] = 1;
        for (int64_t i = 0; i < n; i++)
            w[i * n + j] = w[i * n + j] != 0 ? 1 / parts : 0;
    }
}

static bool has_mass(const void *params)
{
    return ((const tt_gossip_params *)params)->push;
}

static bool mix(const void *params, int64_t replicas, int variant, double *w)
{
    if (!tt__gossip_hears(params, replicas, variant, w))
        return false;
    if (has_mass(params))
        divide(w, replicas);
    else
        weigh(w, replicas);
    return true;
}

static double gamma_of(const void *params)
{
    return ((const tt_gossip_params *)params)->gamma;
}

// With tracking: the mix of y minus d before, and the weights before d. With push: s - x,
// which is the first state where it is the only one.
enum { CARRY, START, APART };

static int states(const void *params, const tt_policy_state **state_out)
{
    static const tt_policy_state all[] = {
        [CARRY] = {.name = "carry"},
        [START] = {.name = "start", .from_model = true},
        [APART] = {.name = "apart"},
    };
    const tt_gossip_params *p = params;
    *state_out = p->tracking ? all : &all[APART];
    return (p->tracking ? 2 : 0) + (p->push ? 1 : 0);
}

static int apart_at(const tt_agreement *a)
{
    return ((const tt_gossip_params *)a->params)->tracking ? APART : 0;
}

// s, or x without push.
static tt_val counts(tt_builder *b, const tt_agreement *a)
{
    return has_mass(a->params) ? tt_add(b, a->x, a->state[apart_at(a)]) : a->x;
}

// d, as x = start - d.
static tt_val step_of(tt_builder *b, const tt_agreement *a)
{
    return tt_policy_add(b, a->state[START], -1, a->x);
}

// y = carry + d, and start - y is x - carry; likewise of s.
static tt_status send(tt_builder *b, tt_agreement *a)
{
    a->sent = counts(b, a);
    if (!((const tt_gossip_params *)a->params)->tracking)
        return b->status;
    a->sent = tt_policy_add(b, a->sent, -1, a->state[CARRY]);
    a->also = tt_add(b, a->state[CARRY], step_of(b, a));
    return b->status;
}

static tt_status take(tt_builder *b, tt_agreement *a)
{
    a->x_out = a->got[0];
    if (has_mass(a->params)) {
        a->x_out = tt_mul(b, a->got[0], a->per_mass);
        a->state_out[apart_at(a)] = tt_policy_add(b, a->got[0], -1, a->x_out);
    }
    if (((const tt_gossip_params *)a->params)->tracking) {
        a->state_out[CARRY] = tt_policy_add(b, a->got[1], -1, step_of(b, a));
        a->state_out[START] = a->x_out;
    }
    return b->status;
}

extern const tt_policy_def tt_policy_gossip;

// Of push: where all masses stay 1.
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
    "graph=butterfly",
    "graph=complete",
    "graph=shifts shifts=3,1",
    "graph=ring tracking=true",
    "graph=cycle push=true",
    "graph=exponential turns=true push=true",
    "graph=exponential push=true tracking=true every=2",
    NULL,
};

const tt_policy_def tt_policy_gossip = {
    .name = "gossip",
    .doc = "Replicas take the mean with a few neighbours on a fixed graph.",
    .paper = "D-PSGD Lian 2017; GossipGraD Daily 2018; exponential graphs "
             "Ying 2021; MALT Li 2015; CHOCO Koloskova 2019; DSGT Pu and Nedic "
             "2020; SGP Assran 2019; Push-DIGing Nedic 2017",
    .kind = TT_POLICY_STATIC,
    .options = options,
    .params_bytes = sizeof(tt_gossip_params),
    .check = check,
    .variants = variants,
    .is_due = is_due,
    .mix = mix,
    .has_mass = has_mass,
    .gamma = gamma_of,
    .states = states,
    .counts = counts,
    .send = send,
    .take = take,
    .rate = rate,
    .samples = samples,
};
