// Rules of workers with weights of their own, over the samples of all policies, on vectors of
// one number: means are kept, shares add up, numbers go there and back.

#include "base/arena.h"
#include "base/rng.h"
#include "exchange/peer.h"
#include "policy/policy.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { W = 6, DELIVERIES = 300, BOXES = W * W };

typedef struct crowd {
    tt_arena *arena;
    tt_peer_params params;
    tt_peer_state peer;
    double v[TT_PEER_VECTORS][BOXES];
    bool learns; // a step moves a worker; else it leaves it
} crowd;

static void begin(crowd *c, const tt_policy_def *policy, const char *sample,
                  bool learns)
{
    memset(c, 0, sizeof *c);
    c->arena = tt_arena_create();
    c->learns = learns;
    CHECK_OK(tt_opt_defaults(policy->options, &c->params, c->arena));
    CHECK_OK(tt_opt_parse(policy->options, &c->params, sample, c->arena));
    const tt_peer_rules rules = {.kind = (tt_peer_kind)policy->peer,
                                 .workers = W,
                                 .seed = 3,
                                 .params = &c->params};
    CHECK_OK(tt_peer_init(&c->peer, &rules, c->arena));
    for (int i = 0; i < W; i++)
        c->v[TT_PEER_WEIGHTS][i] = tt_rng_uniform(7, (uint64_t)i);
}

static void run(crowd *c)
{
    for (int32_t i = 0; i < c->peer.n_ops; i++) {
        const tt_peer_op *op = &c->peer.op[i];
        double *y = &c->v[op->y.what][op->y.of];
        if (op->what == TT_PEER_MIX)
            *y = op->a * c->v[op->x.what][op->x.of] +
                 (op->b == 0 ? 0 : op->b * *y);
        else if (op->what == TT_PEER_STEP && c->learns)
            *y -= 0.1 * (*y - 1);
    }
}

static void deliver(crowd *c, int32_t worker)
{
    c->v[TT_PEER_GRADIENT][worker] = worker;
    (void)tt_peer_deliver(&c->peer, worker);
    run(c);
}

static double model_of(crowd *c)
{
    tt_peer_model(&c->peer);
    run(c);
    return c->v[TT_PEER_MODEL][0];
}

static int32_t somebody(int k)
{
    return (int32_t)(tt_rng_uniform(11, (uint64_t)k) * W);
}

typedef void each_fn(const tt_policy_def *policy, const char *sample);

static int each(each_fn *check)
{
    int n = 0, tried = 0;
    const tt_policy_def *const *all = tt_policy_all(&n);
    for (int i = 0; i < n; i++)
        for (const char *const *s = all[i]->samples;
             all[i]->peer != TT_PEER_NONE &&
             all[i]->peer != TT_PEER_SHARED && // who have no messages
             *s != NULL;
             s++, tried++)
            check(all[i], *s);
    return tried;
}

static int64_t units(const crowd *c)
{
    int64_t sum = 0;
    for (int32_t i = 0; i < W; i++)
        sum += c->peer.worker[i].share +
               (c->peer.rules.kind == TT_PEER_SHARES ? c->peer.box[i] : 0);
    return sum;
}

// Pairs and shares keep the model whoever speaks; the sum of shares is exact.
static void check_kept(const tt_policy_def *policy, const char *sample)
{
    crowd c;
    begin(&c, policy, sample, false);
    const double model = model_of(&c);
    const int64_t all = units(&c);
    double widest = 0;
    for (int k = 0; k < DELIVERIES; k++) {
        deliver(&c, somebody(k));
        CHECK(units(&c) == all);
        if (policy->peer != TT_PEER_PAIRS && policy->peer != TT_PEER_SHARES)
            continue;
        CHECK_MSG(fabs(model_of(&c) - model) < 1e-12,
                  "%s %s: the model was %.17g and is %.17g", policy->name,
                  sample, model, model_of(&c));
    }
    for (int i = 1; i < W; i++)
        widest = fmax(widest,
                      fabs(c.v[TT_PEER_WEIGHTS][i] - c.v[TT_PEER_WEIGHTS][0]));
    CHECK_MSG(c.params.push == TT_SCATTER_GRADIENT || widest < 0.3,
              "%s %s: workers are %g apart", policy->name, sample, widest);
    tt_arena_destroy(c.arena);
}

TEST(messages_keep_the_mean_and_bring_workers_together)
{
    CHECK(each(check_kept) >= 12);
}

// All go to 1, and so does the model; with an outer momentum for good.
static void check_learns(const tt_policy_def *policy, const char *sample)
{
    crowd c;
    begin(&c, policy, sample, true);
    for (int k = 0; k < 10 * DELIVERIES; k++)
        deliver(&c, k % W);
    CHECK_MSG(fabs(model_of(&c) - 1) < 1e-3, "%s %s: the model is at %g",
              policy->name, sample, c.v[TT_PEER_MODEL][0]);
    tt_arena_destroy(c.arena);
}

TEST(workers_and_the_model_get_where_steps_lead)
{
    CHECK(each(check_learns) >= 12);
}

static void check_numbers(const tt_policy_def *policy, const char *sample)
{
    crowd a, b;
    double v[256];
    begin(&a, policy, sample, true);
    begin(&b, policy, sample, true);
    CHECK(tt_peer_count(&a.peer) <= 256);
    for (int k = 0; k < DELIVERIES; k++)
        deliver(&a, somebody(k));
    tt_peer_save(&a.peer, v);
    CHECK_OK(tt_peer_load(&b.peer, v));
    memcpy(b.v, a.v, sizeof a.v);
    for (int k = DELIVERIES; k < 2 * DELIVERIES; k++) {
        deliver(&a, somebody(k));
        deliver(&b, somebody(k));
    }
    CHECK_MSG(model_of(&a) == model_of(&b), "%s %s goes on otherwise",
              policy->name, sample);
    v[0] = -1;
    CHECK(tt_peer_load(&b.peer, v) == TT_ERR_ARG);
    tt_arena_destroy(a.arena);
    tt_arena_destroy(b.arena);
}

TEST(numbers_of_peers_go_there_and_back)
{
    CHECK(each(check_numbers) >= 12);
}

TEST(a_pair_is_as_the_graph_says)
{
    crowd c;
    begin(&c, tt_policy_find("adpsgd"), "graph=bipartite", false);
    for (int k = 0; k < DELIVERIES; k++) {
        const int32_t i = somebody(k);
        deliver(&c, i);
        CHECK(c.peer.n_ops == (i % 2 == 0 ? 4 : 1));
        CHECK(c.peer.n_ops == 1 || c.peer.op[0].x.of % 2 == 1);
    }
    tt_arena_destroy(c.arena);
    begin(&c, tt_policy_find("adpsgd"), "graph=ring", false);
    for (int k = 0; k < DELIVERIES; k++) {
        const int32_t i = somebody(k);
        deliver(&c, i);
        const int32_t by = (c.peer.op[0].x.of - i + W) % W;
        CHECK(by == 1 || by == W - 1);
    }
    tt_arena_destroy(c.arena);
}
