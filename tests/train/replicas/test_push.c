// Push-sum: where every replica hears and is heard by as many it is gossip, where all hear all
// it is allreduce, whatever the optimiser's steps are; any number of ranks carries it; codes
// that lose nothing change nothing; graphs that leave somebody out are refused. That sums are
// what matrices say, and that the mean stays, is the law `policy`.

#include "test.h"
#include "train/jobs.h"
#include "train/replicas/outcomes.h"

#define FEW FOUR, "exchange.policy=gossip"
#define PUSH FEW, "exchange.push=true"
#define ARROWS PUSH, "exchange.graph=arrows"
#define IRREGULAR ARROWS, "exchange.edges=0-1,1-2,2-3,3-0,0-2"
#define EVERYBODY                                                              \
    ARROWS, "exchange.edges=0-1,0-2,0-3,1-0,1-2,1-3,2-0,2-1,2-3,3-0,3-1,3-2"

TEST(push_is_what_it_degenerates_to)
{
    static const struct {
        const char *a[SETTINGS], *b[SETTINGS];
        const char *suffix; // of the tensors that are compared
    } table[] = {
        {{PUSH, "exchange.graph=cycle"},
         {FEW, "exchange.graph=shifts", "exchange.shifts=1"},
         ".replica"},
        {{PUSH, "exchange.graph=exponential", "optim=momentum"},
         {FEW, "exchange.graph=exponential", "optim=momentum"},
         ".replica"},
        {{PUSH, "exchange.graph=exponential", "exchange.turns=true"},
         {FEW, "exchange.graph=exponential", "exchange.turns=true"},
         ".replica"},
        {{PUSH, "exchange.graph=cycle", "exchange.tracking=true"},
         {FEW, "exchange.graph=cycle", "exchange.tracking=true"},
         ".replica"},
        {{EVERYBODY}, {USUAL}, ""},
        {{EVERYBODY, "exchange.tracking=true"}, {USUAL}, ""},
        {{IRREGULAR, "exchange.codec=topk", "exchange.codec.ratio=1",
          "exchange.gamma=1"},
         {IRREGULAR},
         ".replica"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_same(table[i].a, table[i].b, table[i].suffix, 4);
}

TEST_SLOW(push_is_carried_by_any_ranks, 60)
{
    static const char *const table[][SETTINGS] = {
        {IRREGULAR},
        {IRREGULAR, "exchange.every=2", "optim=adamw"},
        {IRREGULAR, "exchange.tracking=true"},
        {IRREGULAR, "exchange.codec=onebit", "exchange.gamma=0.5"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_ranks("mlp", table[i], (const int32_t[]){2, 4, 0}, 4);
}

// One batch again and again, at a learning rate that becomes nothing: all come to the model,
// though replica 1 is heard by one and replica 0 by three.
TEST(replicas_that_push_come_to_the_model)
{
    static const char *const more[] = {
        ARROWS, "exchange.edges=0-1,0-2,0-3,1-2,2-3,3-0", NULL};
    made m = start_job(family_named("mlp"), more, false);
    tt_step_result r = {0};
    m.job->wants_model = true;
    for (int i = 0; i < 8; i++)
        r = step_job(&m);
    const double before = r.distance;
    m.job->lr = 0;
    for (int i = 0; i < 60; i++)
        r = step_job(&m);
    CHECK_MSG(before > 1e-6 * r.length && r.distance < 1e-8 * before,
              "distance %g, then %g of %g", before, r.distance, r.length);
    close_job(&m);
}

#define GPT "model=gpt", "model.width=24", "model.heads=3", "seq=9"

TEST(arrows_that_cannot_be_are_refused)
{
    static const struct {
        const char *setting[SETTINGS], *message;
    } table[] = {
        {{GPT, FEW, "exchange.graph=arrows", "exchange.edges=0-1"},
         "exchange.push=true would do"},
        {{GPT, ARROWS}, "exchange.graph=arrows without exchange.edges"},
        {{GPT, ARROWS, "exchange.edges=0-1,1-2,2-3"},
         "replica 0 never hears of replica 1"},
        {{GPT, ARROWS, "exchange.edges=1-0,2-1,3-2,0-1,1-2"},
         "replica 3 never hears of replica 0"},
        {{GPT, PUSH, "exchange.graph=complete"}, "exchange.push=false would"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_refused(table[i].setting, table[i].message);
}
