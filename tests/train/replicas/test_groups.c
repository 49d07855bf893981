// Replicas in groups (exchange.group, exchange.outer.*): any number of ranks carries them,
// groups at their limits are the policy inside or the one between, and what cannot be is
// refused. What agreements do is the law `policy`.

#include "ops/comm/comm.h"
#include "test.h"
#include "train/jobs.h"
#include "train/replicas/outcomes.h"

#include <string.h>

#define OUT(name) "exchange.outer.policy=" name

static const char *const insides[][SETTINGS] = {
    {"exchange.policy=allreduce"},
    {"exchange.policy=average", "exchange.every=2"},
    {"exchange.policy=average", "exchange.every=2", "exchange.optim=nesterov"},
    {"exchange.policy=elastic", "exchange.every=1"},
    {"exchange.policy=gossip"},
};

static const char *const betweens[][SETTINGS] = {
    {OUT("average"), "exchange.outer.every=2"},
    {OUT("average"), "exchange.outer.every=3", "exchange.outer.optim=momentum"},
    {OUT("elastic"), "exchange.outer.every=2", "exchange.outer.momentum=0.5"},
    {OUT("gossip")},
};

static int append(const char *all[], int n, const char *const *more)
{
    for (; *more != NULL; more++)
        all[n++] = *more;
    all[n] = NULL;
    return n;
}

static void check_carried(const char *const *inside, const char *const *between,
                          const int32_t *ranks)
{
    static const char *const more[] = {"exchange.replicas=8",
                                       "exchange.group=4", "batch=8",
                                       "precision=fp64", NULL};
    const char *all[SETTINGS];
    (void)append(all, append(all, append(all, 0, inside), between), more);
    check_ranks("mlp", all, ranks, 5);
}

// Each pair of policies once; ranks that have a part of a group, one group, or several.
TEST_SLOW(groups_are_carried_by_any_ranks, 120)
{
    static const int32_t ranks[][3] = {{2, 0}, {4, 0}, {8, 0}};
    const size_t n = sizeof insides / sizeof *insides;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof betweens / sizeof *betweens; k++)
            check_carried(insides[i], betweens[k], ranks[(i + k) % 3]);
}

TEST_SLOW(groups_have_every_model_and_layout, 120)
{
    static const struct {
        const char *family;
        const char *setting[SETTINGS];
        int32_t ranks[3];
    } table[] = {
        {"gpt",
         {"exchange.policy=allreduce", OUT("average"), "exchange.outer.every=2",
          "batch=24", "accumulate=3"},
         {4}},
        {"gpt",
         {"exchange.policy=elastic", "exchange.every=1", OUT("elastic"),
          "exchange.outer.every=2", "batch=8", "model.dropout=0.2"},
         {4}},
        {"resnet",
         {"exchange.policy=allreduce", OUT("average"), "exchange.outer.every=2",
          "batch=8"},
         {4}},
        {"resnet",
         {"exchange.policy=average", "exchange.every=1", OUT("average"),
          "exchange.outer.every=2", "batch=8"},
         {2}},
        {"mlp",
         {"exchange.policy=allreduce", OUT("average"), "exchange.outer.every=1",
          "exchange.codec=onebit", "batch=8"},
         {2, 4}},
        {"lstm",
         {"exchange.policy=gossip", OUT("average"), "exchange.outer.every=1",
          "batch=8", "train.ema=0.9"},
         {2}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        static const char *const usual[] = {
            "exchange.replicas=4", "exchange.group=2", "precision=fp64", NULL};
        const char *more[SETTINGS];
        (void)append(more, append(more, 0, table[i].setting), usual);
        check_ranks(table[i].family, more, table[i].ranks, 3);
    }
}

// ---- limits --------------------------------------------------------------

TEST(groups_at_their_limits_are_what_they_degenerate_to)
{
    static const struct {
        const char *a[SETTINGS], *b[SETTINGS];
        const char *suffix; // of the tensors that are compared
    } table[] = {
        // one group has the policy inside
        {{FOUR, "exchange.policy=elastic", "exchange.every=2",
          "exchange.group=4", OUT("average")},
         {FOUR, "exchange.policy=elastic", "exchange.every=2"},
         ""},
        // groups of one have the policy between them
        {{FOUR, "exchange.policy=allreduce", "exchange.group=1", OUT("average"),
          "exchange.outer.every=2", "exchange.outer.optim=nesterov"},
         {FOUR, "exchange.policy=average", "exchange.every=2",
          "exchange.optim=nesterov"},
         ""},
        {{FOUR, "exchange.policy=gossip", "exchange.group=1", OUT("elastic"),
          "exchange.outer.every=1"},
         {FOUR, "exchange.policy=elastic", "exchange.every=1"},
         ""},
        // averaging after every step, inside and between, is summing gradients
        {{FOUR, "exchange.policy=average", "exchange.every=1",
          "exchange.group=2", OUT("average"), "exchange.outer.every=1"},
         {USUAL},
         ""},
        {{FOUR, "exchange.policy=allreduce", "exchange.group=2", OUT("average"),
          "exchange.outer.every=1"},
         {USUAL},
         ""},
        // the mean of means is the mean
        {{FOUR, "exchange.policy=average", "exchange.every=2",
          "exchange.group=2", OUT("average"), "exchange.outer.every=2",
          "exchange.outer.optim=momentum"},
         {FOUR, "exchange.policy=average", "exchange.every=2",
          "exchange.optim=momentum"},
         "weight"},
        // a group that sums gradients is a replica with all of its samples
        {{FOUR, "exchange.policy=allreduce", "exchange.group=2", OUT("gossip"),
          "model.dropout=0.2"},
         {USUAL, "exchange.replicas=2", "exchange.policy=gossip",
          "model.dropout=0.2"},
         ""},
        // groups send their neighbours codes, as replicas do
        {{FOUR, "exchange.policy=allreduce", "exchange.group=2", OUT("gossip"),
          "exchange.codec=topk", "exchange.codec.ratio=1",
          "exchange.outer.gamma=1"},
         {FOUR, "exchange.policy=allreduce", "exchange.group=2", OUT("gossip")},
         "weight.replica"},
        // whether a group sums gradients or averages after every step
        {{EIGHT, "exchange.policy=average", "exchange.every=1",
          "exchange.group=4", OUT("elastic"), "exchange.outer.every=2"},
         {EIGHT, "exchange.policy=allreduce", "exchange.group=4",
          OUT("elastic"), "exchange.outer.every=2"},
         "wte.weight"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_same(table[i].a, table[i].b, table[i].suffix, 4);
}

// ---- what is sent --------------------------------------------------------

// A step sends along the axis of the group only, and only if it sums gradients there.
TEST(a_step_speaks_to_its_group_only)
{
    static const char *const inside[] = {"allreduce", "average"};
    for (int k = 0; k < 2; k++) {
        const char *const more[] = {"exchange.group=2",
                                    OUT("average"),
                                    "batch=8",
                                    "mesh.data=4",
                                    k == 0 ? "exchange.policy=allreduce"
                                           : "exchange.policy=average",
                                    NULL};
        made m = make_job(family_named("gpt"), more);
        CHECK_OK(tt_job_plan(m.job));
        const tt_plan *plan = m.job->plan;
        int n_step = 0, n_agree = 0;
        for (int32_t s = 0; s < plan->n_segments; s++)
            for (int32_t i = 0; i < plan->segment[s].n; i++) {
                const tt_step *step = &plan->step[plan->segment[s].first + i];
                if (!tt_op_is_collective(step->op))
                    continue;
                const int64_t axis =
                    ((const tt_comm_params *)step->params)->axis;
                const char *name = plan->graph->mesh.axis[axis].name;
                if (tt_phase_is_aside(plan->segment[s].phase)) {
                    n_agree++;
                    continue;
                }
                n_step++;
                CHECK_MSG(strcmp(name, "group") == 0, "%s along %s", step->name,
                          name);
            }
        CHECK_MSG(n_agree > 0 && (n_step > 0) == (k == 0), "%s: %d and %d",
                  inside[k], n_step, n_agree);
        CHECK_OK(tt_plan_verify(plan));
        close_job(&m);
    }
}

// ---- what is refused -----------------------------------------------------

#define MLP "model=mlp", "image=3", "model.classes=3", "batch=24"

TEST(what_groups_cannot_do_is_said)
{
    static const struct {
        const char *setting[SETTINGS], *message;
    } table[] = {
        {{MLP, "exchange.replicas=4", "exchange.group=2"},
         "exchange.outer.policy=average would do"},
        {{MLP, "exchange.replicas=4", OUT("average")},
         "exchange.group=2 would do"},
        {{MLP, "exchange.replicas=4", "exchange.group=2", OUT("average"),
          "exchange.policy=ps"},
         "exchange.policy=allreduce would do"},
        {{MLP, "exchange.replicas=4", "exchange.group=3", OUT("average")},
         "exchange.replicas=6 would do"},
        {{MLP, "exchange.replicas=4", "exchange.group=4", OUT("average")},
         "exchange.replicas=8 would do"},
        {{MLP, "exchange.replicas=3", "exchange.group=2", OUT("average"),
          "mesh.data=3"}, // 4 replicas in 2 groups are nothing for 3 ranks
         "exchange.replicas=6 would do"},
        {{MLP, "exchange.replicas=1", "exchange.group=2", OUT("average")},
         "exchange.replicas=4 would do"},
        {{MLP, "exchange.replicas=6", "exchange.group=2", OUT("average"),
          "mesh.data=2"},
         "3 groups cannot be shared by 2 ranks"},
        {{MLP, "exchange.replicas=4", "exchange.group=2", OUT("average"),
          "exchange.policy=average", "exchange.codec=topk"},
         "exchange.policy=allreduce would do"},
        {{MLP, "exchange.replicas=8", "exchange.group=4", OUT("gossip"),
          "exchange.outer.graph=shifts", "exchange.outer.shifts=2"},
         "exchange.shifts=1 would do"},
        {{MLP, "exchange.replicas=4", "exchange.group=2", OUT("gossip"),
          "exchange.outer.graph=complete", "exchange.codec=topk"},
         "exchange.outer.policy=average exchange.outer.every=1 would do"},
        {{MLP, "exchange.replicas=4", "exchange.group=1", OUT("gaia"),
          "exchange.policy=average", "exchange.codec=topk"},
         "it has a code of its own"},
        {{MLP, "exchange.replicas=4", "exchange.group=2", OUT("average"),
          "zero=1", "mesh.data=2"},
         "zero=0 would do"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_refused(table[i].setting, table[i].message);
}
