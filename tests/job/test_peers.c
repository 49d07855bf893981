// Workers with weights of their own: under every policy and sample the loss of a small GPT
// and of LeNet falls. That ranks make no difference is tests/e2e/async/peers.sh.

#include "base/rng.h"
#include "policy/peer.h"
#include "test.h"
#include "train/jobs.h"

#include <math.h>
#include <string.h>

enum { SETTINGS = 16 };

static void with_policy(const tt_policy_def *policy, const char *sample,
                        const char *const *more, tt_arena *arena,
                        const char *all[SETTINGS])
{
    int n = 0;
    char *text = tt_arena_strdup(arena, sample), *rest = NULL;
    all[n++] = tt_arena_printf(arena, "exchange.policy=%s", policy->name);
    for (char *p = strtok_r(text, " ", &rest); p != NULL;
         p = strtok_r(NULL, " ", &rest))
        all[n++] = tt_arena_printf(arena, "exchange.%s", p);
    for (; *more != NULL; more++)
        all[n++] = *more;
    all[n] = NULL;
}

typedef void each_fn(const tt_policy_def *policy, const char *sample,
                     tt_arena *arena);

static int each(each_fn *check)
{
    int n = 0, tried = 0;
    const tt_policy_def *const *all = tt_policy_all(&n);
    tt_arena *arena = tt_arena_create();
    for (int i = 0; i < n; i++)
        for (const char *const *s = all[i]->samples;
             all[i]->peer != TT_PEER_NONE && *s != NULL; s++, tried++)
            check(all[i], *s, arena);
    tt_arena_destroy(arena);
    return tried;
}

// Trains on one batch.
static tt_status feed(void *user, const tt_job *job, int64_t micro, void *x,
                      void *y)
{
    static const char *const name[] = {"x", "y"};
    void *const data[] = {x, y};
    (void)user;
    (void)micro;
    for (int k = 0; k < 2; k++) {
        const tt_type *type =
            &job->graph->value[tt_graph_find(job->graph, name[k]).id].type;
        const int64_t n = tt_shape_count(&type->shape);
        const uint64_t key = tt_rng_key(5, name[k], 0);
        for (int64_t i = 0; i < n; i++) {
            const double u = tt_rng_uniform(key, (uint64_t)i);
            tt_dtype_store(type->dtype, data[k], i,
                           tt_dtype_is_float(type->dtype) ? 2 * u - 1
                                                          : floor(7 * u));
        }
    }
    return TT_OK;
}

static void check_falls(const tt_policy_def *policy, const char *sample,
                        const family *f, tt_arena *arena)
{
    static const char *const more[] = {"exchange.replicas=4", "batch=8",
                                       "optim=sgd",           "optim.lr=0.05",
                                       "threads=1",           NULL};
    const char *setting[SETTINGS];
    tt_step_result r = {0};
    double first = 0;
    with_policy(policy, sample, more, arena, setting);
    made m = start_job(f, setting, false);
    for (int i = 0; i < 50; i++) {
        CHECK_OK(tt_job_step(m.job, feed, NULL, &r));
        first = i == 0 ? r.loss : first;
    }
    CHECK_MSG(isfinite(r.loss) && r.loss < 0.97 * first && r.norm > 0,
              "%s with %s %s: loss %g, then %g", f->name, policy->name, sample,
              first, r.loss);
    close_job(&m);
}

static void check_trains(const tt_policy_def *policy, const char *sample,
                         tt_arena *arena)
{
    static const family lenet = {
        "lenet", {"model=lenet", "model.classes=7", "image=28", NULL}, true};
    check_falls(policy, sample, family_named("gpt"), arena);
    check_falls(policy, sample, &lenet, arena);
}

TEST_SLOW(peers_train_a_gpt_and_a_conv_net, 180)
{
    CHECK(each(check_trains) >= 12);
}
