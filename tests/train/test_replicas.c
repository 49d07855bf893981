// Replicas with weights of their own (exchange.policy): any number of ranks carries them,
// policies at their limits are what they degenerate to, the loss falls, a guard acts for
// each replica, and what cannot be is refused. What agreements do is the law `policy`.

#include "base/alloc.h"
#include "crew.h"
#include "jobs.h"
#include "test.h"
#include "train/replicas/outcomes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool is_static(const tt_policy_def *policy)
{
    return policy->kind == TT_POLICY_STATIC;
}

// ---- ranks ---------------------------------------------------------------

static void check_carried(const tt_policy_def *policy, const char *sample,
                          tt_arena *arena)
{
    static const char *const more[] = {"exchange.replicas=4", "batch=8",
                                       "precision=fp64", NULL};
    const char *setting[SETTINGS];
    with_policy(policy, sample, more, arena, setting);
    check_ranks("mlp", setting, (const int32_t[]){2, 4, 0}, 5);
}

TEST_SLOW(replicas_with_weights_of_their_own_are_carried_by_any_ranks, 120)
{
    CHECK(each_policy(is_static, check_carried) >= 12);
}

TEST_SLOW(replicas_have_every_model_and_layout, 120)
{
    static const struct {
        const char *family;
        const char *setting[SETTINGS];
        int32_t ranks[3];
    } table[] = {
        {"gpt",
         {"exchange.policy=average", "exchange.every=2", "batch=8"},
         {4}},
        {"gpt",
         {"exchange.policy=gossip", "exchange.every=1", "batch=24",
          "accumulate=3"},
         {2}},
        {"gpt",
         {"exchange.policy=average", "exchange.every=2", "batch=8",
          "model.experts=4"},
         {2, 4}},
        {"mlp",
         {"exchange.policy=average", "exchange.every=1",
          "exchange.codec=onebit", "exchange.optim=nesterov", "batch=8"},
         {2, 4}},
        {"mlp",
         {"exchange.policy=elastic", "exchange.every=1",
          "exchange.codec=powersgd", "batch=8"},
         {2, 4}},
        {"mlp",
         {"exchange.policy=gossip", "exchange.graph=exponential",
          "exchange.turns=true", "exchange.codec=qsgd", "batch=8"},
         {2, 4}},
        {"mlp",
         {"exchange.policy=gossip", "exchange.every=2",
          "exchange.codec=powersgd", "batch=8"},
         {2, 4}},
        {"resnet",
         {"exchange.policy=average", "exchange.every=2", "batch=8"},
         {2}},
        {"lstm",
         {"exchange.policy=elastic", "exchange.every=1", "batch=8",
          "train.ema=0.9"},
         {2}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *more[SETTINGS + 2];
        int n = 0;
        for (; table[i].setting[n] != NULL; n++)
            more[n] = table[i].setting[n];
        more[n++] = "exchange.replicas=4";
        more[n++] = "precision=fp64";
        more[n] = NULL;
        check_ranks(table[i].family, more, table[i].ranks, 3);
    }
}

// ---- limits --------------------------------------------------------------

TEST(policies_at_their_limits_are_what_they_degenerate_to)
{
    static const struct {
        const char *a[SETTINGS], *b[SETTINGS];
        const char *suffix; // of the tensors that are compared
    } table[] = {
        // averaging after every step is averaging gradients
        {{FOUR, "exchange.policy=average", "exchange.every=1"}, {USUAL}, ""},
        {{FOUR, "exchange.policy=average", "exchange.every=9",
          "exchange.dense=9"},
         {USUAL},
         ""},
        {{FOUR, "exchange.policy=average", "exchange.every=1",
          "exchange.parts=1", "model.dropout=0.2"},
         {USUAL, "model.dropout=0.2"},
         ""},
        // codes that lose nothing
        {{FOUR, "exchange.policy=average", "exchange.every=2",
          "exchange.codec=topk", "exchange.codec.ratio=1"},
         {FOUR, "exchange.policy=average", "exchange.every=2"},
         ".replica"},
        {{FOUR, "exchange.policy=elastic", "exchange.every=2",
          "exchange.codec=randomk", "exchange.codec.ratio=1"},
         {FOUR, "exchange.policy=elastic", "exchange.every=2"},
         ".replica"},
        {{FOUR, "exchange.policy=gossip", "exchange.codec=topk",
          "exchange.codec.ratio=1", "exchange.gamma=1"},
         {FOUR, "exchange.policy=gossip"},
         ".replica"},
        {{FOUR, "exchange.policy=gossip", "exchange.graph=exponential",
          "exchange.turns=true", "exchange.codec=randomk",
          "exchange.codec.ratio=1", "exchange.gamma=1"},
         {FOUR, "exchange.policy=gossip", "exchange.graph=exponential",
          "exchange.turns=true"},
         ".replica"},
        // an outer optimiser without momentum is none
        {{FOUR, "exchange.policy=average", "exchange.every=2",
          "exchange.optim=momentum", "exchange.optim_momentum=0"},
         {FOUR, "exchange.policy=average", "exchange.every=2"},
         ".replica"},
        {{FOUR, "exchange.policy=average", "exchange.every=2",
          "exchange.optim=nesterov", "exchange.optim_momentum=0"},
         {FOUR, "exchange.policy=average", "exchange.every=2"},
         ".replica"},
        // speaking with everybody is averaging
        {{FOUR, "exchange.policy=gossip", "exchange.graph=complete"},
         {FOUR, "exchange.policy=average", "exchange.every=1"},
         ".replica"},
        {{FOUR, "exchange.policy=gossip", "exchange.graph=shifts",
          "exchange.shifts=1,2,3"},
         {FOUR, "exchange.policy=average", "exchange.every=1"},
         ".replica"},
        // a centre that nobody feels
        {{FOUR, "exchange.policy=elastic", "exchange.every=1",
          "exchange.alpha=1e-300", "exchange.beta=0"},
         {FOUR, "exchange.policy=average", "exchange.every=0"},
         ".replica"},
        // SMA without momentum is EASGD; with alpha = beta = 1 each replica gets what
        // the mean was one agreement before
        {{FOUR, "exchange.policy=elastic", "exchange.every=2",
          "exchange.momentum=1e-300"},
         {FOUR, "exchange.policy=elastic", "exchange.every=2"},
         ".replica"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_same(table[i].a, table[i].b, table[i].suffix, 4);
}

// Replicas that nobody averages have weights of their own.
TEST(replicas_differ_until_they_agree)
{
    static const char *const more[] = {FOUR, "exchange.policy=average",
                                       "exchange.every=3", NULL};
    made m = start_job(family_named("gpt"), more, false);
    m.job->wants_model = true;
    for (int i = 1; i <= 3; i++) {
        const tt_step_result r = step_job(&m);
        CHECK_MSG(i < 3 ? r.distance > 1e-6 * r.length
                        : r.distance < 1e-12 * r.length,
                  "distance %g of %g after step %d", r.distance, r.length, i);
    }
    close_job(&m);
}

// ---- the loss falls ------------------------------------------------------

static void check_falls(const tt_policy_def *policy, const char *sample,
                        const char *const *more, const family *f,
                        tt_arena *arena)
{
    const char *setting[SETTINGS];
    tt_step_result r = {0};
    double first = 0;
    with_policy(policy, sample, more, arena, setting);
    made m = start_job(f, setting, false);
    for (int i = 0; i < 50; i++) {
        CHECK_OK(tt_job_step(m.job, feed_one_batch, NULL, &r));
        first = i == 0 ? r.loss : first;
    }
    CHECK_MSG(isfinite(r.loss) && r.loss < 0.97 * first,
              "%s with %s %s: loss %g, then %g", f->name, policy->name, sample,
              first, r.loss);
    close_job(&m);
}

static void check_trains(const tt_policy_def *policy, const char *sample,
                         tt_arena *arena)
{
    static const family lenet = {
        "lenet", {"model=lenet", "model.classes=7", "image=28", NULL}, true};
    static const char *const more[] = {"exchange.replicas=2", "batch=4",
                                       "optim=sgd", "optim.lr=0.05", NULL};
    check_falls(policy, sample, more, family_named("gpt"), arena);
    check_falls(policy, sample, more, &lenet, arena);
}

TEST_SLOW(every_policy_trains_a_gpt_and_a_conv_net, 180)
{
    CHECK(each_policy(is_static, check_trains) >= 12);
}

// ---- a guard for each ----------------------------------------------------

// Samples of the first replica are no numbers.
static tt_status feed_bad(void *user, const tt_job *job, int64_t micro, void *x,
                          void *y)
{
    TT_TRY(tt_job_feed_random(user, job, micro, x, y));
    const tt_type *type =
        &job->graph->value[tt_graph_find(job->graph, "x").id].type;
    const int64_t n = tt_shape_count(&type->shape) / job->exchange.replicas;
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(type->dtype, x, i, (double)NAN);
    return TT_OK;
}

TEST(a_bad_step_is_skipped_by_its_replica_alone)
{
    static const char *const more[] = {"exchange.replicas=2", "batch=4",
                                       "exchange.policy=average",
                                       "exchange.every=0", NULL};
    made m = start_job(family_named("resnet"), more, true);
    tt_step_result r;
    CHECK_OK(tt_job_step(m.job, feed_bad, NULL, &r));
    CHECK_MSG(r.n_skipped == 1 && r.n_bad == 1 && r.n_single == 2,
              "%g skipped, %g bad of %g", r.n_skipped, r.n_bad, r.n_single);
    CHECK(isfinite(r.loss) && !isfinite(r.single));
    int same = 0, moved = 0;
    for (int64_t i = 0; i < m.job->tensors.n; i++) {
        const tt_tensor *t = &m.job->tensors.v[i];
        char name[256];
        snprintf(name, sizeof name, "%s.replica", t->name);
        const tt_tensor *own = tt_tensors_find(&m.job->tensors, name);
        if (own == NULL)
            continue;
        char *model = tt_alloc(t->bytes), *both = tt_alloc(own->bytes);
        CHECK_OK(tt_exec_read(m.job->exec, t->val, model));
        CHECK_OK(tt_exec_read(m.job->exec, own->val, both));
        // the model was not made: it is what the replicas began with
        CHECK_MSG(memcmp(both, model, (size_t)t->bytes) == 0,
                  "%s of the replica that skipped", t->name);
        same++;
        moved += memcmp(both + t->bytes, model, (size_t)t->bytes) != 0;
        tt_free(model);
        tt_free(both);
    }
    CHECK_MSG(same > 10 && moved > same / 2, "%d of %d moved", moved, same);
    close_job(&m);
}

// ---- what is sent --------------------------------------------------------

// A step by itself has no collective along the axis of the replicas.
static void check_silent(const char *setting)
{
    const char *const more[] = {"exchange.policy=average",
                                "exchange.every=2",
                                "batch=8",
                                "mesh.data=4",
                                setting,
                                NULL};
    made m = make_job(family_named("gpt"), more);
    CHECK_OK(tt_job_plan(m.job));
    const tt_plan *plan = m.job->plan;
    int n_agree = 0;
    for (int32_t s = 0; s < plan->n_segments; s++)
        for (int32_t i = 0; i < plan->segment[s].n; i++) {
            const tt_step *step = &plan->step[plan->segment[s].first + i];
            if (!tt_op_is_collective(step->op))
                continue;
            CHECK_MSG(tt_phase_is_aside(plan->segment[s].phase), "%s in %s",
                      step->name, plan->segment[s].name);
            n_agree += plan->segment[s].phase == TT_AGREE;
        }
    CHECK(n_agree > 0);
    CHECK(plan->cost.messages == 0 && plan->cost.wire_bytes == 0);
    CHECK_OK(tt_plan_verify(plan));
    close_job(&m);
}

TEST(a_step_sends_nothing)
{
    check_silent("model.experts=0");
    check_silent("model.experts=4");
}

// ---- what is refused -----------------------------------------------------

#define GPT "model=gpt", "model.width=24", "model.heads=3", "seq=9"

TEST(what_replicas_cannot_do_is_said)
{
    static const struct {
        const char *setting[SETTINGS], *message;
    } table[] = {
        {{GPT, "exchange.policy=average"}, "exchange.replicas=2 or -n 2"},
        {{GPT, "exchange.policy=average", "exchange.replicas=4", "batch=6"},
         "batch=8 would do"},
        {{GPT, "exchange.policy=average", "mesh.data=2", "zero=1"},
         "zero=0 would do"},
        {{GPT, "exchange.policy=average", "mesh.data=2", "mesh.pipe=2"},
         "mesh.pipe=1 would do"},
        {{GPT, "exchange.policy=average", "mesh.data=2", "precision=fp16"},
         "precision=bf16"},
        {{GPT, "exchange.policy=average", "mesh.data=2", "exchange.every=0",
          "exchange.optim=momentum"},
         "exchange.every=8 would do"},
        {{GPT, "exchange.policy=average", "mesh.data=2", "exchange.every=2",
          "exchange.parts=3"},
         "exchange.parts=2 would do"},
        {{GPT, "exchange.policy=gossip", "exchange.replicas=8", "batch=8",
          "exchange.graph=shifts", "exchange.shifts=2,4"},
         "2 groups that never hear of each other"},
        {{GPT, "exchange.policy=gossip", "mesh.data=2", "exchange.codec=topk",
          "exchange.graph=complete"},
         "exchange.policy=average exchange.every=1 would do"},
        {{GPT, "exchange.policy=gossip", "mesh.data=2", "exchange.codec=topk",
          "exchange.feedback=true"},
         "two memories of what codes did not say"},
        {{GPT, "exchange.policy=gossip", "mesh.data=2", "exchange.codec=dgc"},
         "a code of gradients"},
        {{GPT, "exchange.policy=average", "mesh.data=2", "exchange.codec=dgc"},
         "a code of gradients"},
        {{GPT, "exchange.policy=average", "mesh.data=2", "exchange.every=0",
          "exchange.codec=topk"},
         "nothing is sent"},
        {{GPT, "exchange.policy=gossip", "exchange.replicas=3", "batch=6",
          "mesh.data=2"},
         "exchange.replicas=2 would do"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_refused(table[i].setting, table[i].message);
}
