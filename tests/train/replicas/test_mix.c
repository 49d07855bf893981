// Graphs of neighbours that are no circles: any number of ranks carries them with the same
// result, a rank sends no more than what its neighbours hear, and graphs that have the same
// edges are the same. That weights are what matrices say is the law `policy`.

#include "test.h"
#include "traffic/cost.h"
#include "train/crew.h"
#include "train/jobs.h"
#include "train/replicas/outcomes.h"

// ---- ranks ---------------------------------------------------------------

#define GOSSIP EIGHT, "exchange.policy=gossip"
#define UNEVEN                                                                 \
    "exchange.graph=edges", "exchange.edges=0-1,0-2,0-3,3-4,4-5,5-6,6-7,2-7"

TEST_SLOW(graphs_that_are_no_circle_are_carried_by_any_ranks, 60)
{
    static const char *const table[][SETTINGS] = {
        {GOSSIP, "exchange.graph=butterfly"},
        {GOSSIP, UNEVEN},
        {GOSSIP, UNEVEN, "exchange.codec=onebit"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_ranks("mlp", table[i], (const int32_t[]){2, 4, 0}, 4);
}

// ---- bytes ---------------------------------------------------------------

typedef struct trial {
    const char *const *setting;
    int64_t weights; // that all ranks together send in an agreement, in weights
    bool is_coded;   // codes, which are shorter than their room
} trial;

// What a rank sends in an agreement is what the plan says; rank 0 adds up.
static tt_status measure(tt_job *job, tt_arena *arena, void *user)
{
    const trial *t = user;
    tt_step_result result;
    tt_wire_stats stats;
    int64_t planned = 0, messages = 0, weights = 0, all[8];
    TT_TRY(tt_job_start(job, NULL));
    tt_coll_cost *cost =
        tt_arena_alloc(arena, (job->plan->n_steps + 1) * (int64_t)sizeof *cost);
    TT_TRY(tt_traffic_costs(job->plan, "ring", cost));
    for (int32_t s = 0; s < job->plan->n_segments; s++)
        for (int32_t i = 0; i < job->plan->segment[s].n; i++)
            if (job->plan->segment[s].phase == TT_AGREE) {
                planned += cost[job->plan->segment[s].first + i].bytes;
                messages += cost[job->plan->segment[s].first + i].messages;
            }
    for (int64_t i = 0; i < job->tensors.n; i++)
        if (job->tensors.v[i].role == TT_TENSOR_PARAM)
            weights += job->tensors.v[i].bytes;
    job->wants_meeting = job->wants_model = false;
    tt_comm_wire_stats(job->peers.wire, true, &stats);
    TT_TRY(tt_job_step(job, tt_job_feed_random, NULL, &result));
    tt_comm_wire_stats(job->peers.wire, false, &stats);
    if (stats.messages != messages ||
        (t->is_coded ? stats.bytes >= planned : stats.bytes != planned))
        return tt_fail(
            TT_ERR_STATE,
            "%s: rank %d sent %lld in %lld messages, planned %lld in "
            "%lld",
            t->setting[7], job->peers.rank, (long long)stats.bytes,
            (long long)stats.messages, (long long)planned, (long long)messages);
    if (t->is_coded)
        return stats.packet_bytes == stats.bytes
                   ? TT_OK
                   : tt_fail(
                         TT_ERR_STATE, "%lld bytes of codes were sent as %lld",
                         (long long)stats.packet_bytes, (long long)stats.bytes);
    const int64_t mine = stats.bytes;
    TT_TRY(tt_peers_collect(&job->peers, "test", &mine, sizeof mine, all));
    int64_t sum = 0;
    for (int32_t r = 0; r < job->peers.size; r++)
        sum += all[r];
    return sum == t->weights * weights
               ? TT_OK
               : tt_fail(TT_ERR_STATE, "%s: all sent %lld, not %lld times %lld",
                         t->setting[7], (long long)sum, (long long)t->weights,
                         (long long)weights);
}

static tt_status be_rank(const tt_launch_rank *rank, void *user)
{
    const trial *t = user;
    return crew_be_rank(rank, family_named("mlp"), t->setting, measure, user);
}

// Eight replicas on four ranks: an edge within a rank sends nothing.
TEST(ranks_send_what_neighbours_on_other_ranks_hear)
{
    static const char *const ring[] = {GOSSIP, "exchange.graph=ring", NULL};
    static const char *const path[] = {GOSSIP, "exchange.graph=edges",
                                       "exchange.edges=0-1,1-2,2-3,3-4,4-5,"
                                       "5-6,6-7",
                                       NULL};
    static const char *const star[] = {GOSSIP, "exchange.graph=edges",
                                       "exchange.edges=0-1,0-2,0-3,0-4,0-5,"
                                       "0-6,0-7",
                                       NULL};
    const trial table[] = {{ring, 8}, {path, 6}, {star, 12}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        trial t = table[i];
        const tt_launch_options options = {
            .n_ranks = 4, .rank_bytes = INT64_C(1) << 28, .pin = false};
        CHECK_OK(tt_launch(&options, be_rank, &t));
    }
}

// A code whose length depends on the numbers is as short for neighbours as it is.
TEST(codes_for_neighbours_are_sent_as_short_as_they_are)
{
    static const char *const table[][SETTINGS] = {
        {GOSSIP, "exchange.codec=qsgd"},
        {GOSSIP, "exchange.codec=3lc", UNEVEN},
        {GOSSIP, "exchange.codec=threshold", "exchange.graph=exponential"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        trial t = {.setting = table[i], .is_coded = true};
        const tt_launch_options options = {
            .n_ranks = 4, .rank_bytes = INT64_C(1) << 28, .pin = false};
        CHECK_OK(tt_launch(&options, be_rank, &t));
    }
}

// ---- the same ------------------------------------------------------------

#define FEW FOUR, "exchange.policy=gossip"

TEST(graphs_with_the_same_edges_are_the_same)
{
    static const char *const ring[] = {FEW, "exchange.graph=ring", NULL};
    static const char *const circle[] = {
        FEW, "exchange.graph=edges", "exchange.edges=0-1,1-2,2-3,3-0", NULL};
    static const char *const complete[] = {FEW, "exchange.graph=complete",
                                           NULL};
    static const char *const all[] = {FEW, "exchange.graph=edges",
                                      "exchange.edges=0-1,0-2,0-3,1-2,1-3,2-3",
                                      NULL};
    check_same(circle, ring, ".replica", 4);
    check_same(all, complete, ".replica", 4);
}

// Where all hear all, the mean step is that of summed gradients.
TEST(tracking_on_a_complete_graph_is_allreduce)
{
    static const char *const tracking[] = {FEW, "exchange.graph=complete",
                                           "exchange.tracking=true", NULL};
    static const char *const by_edges[] = {FEW, "exchange.graph=shifts",
                                           "exchange.shifts=1,2,3",
                                           "exchange.tracking=true", NULL};
    static const char *const sum[] = {USUAL, NULL};
    check_same(tracking, sum, "", 4);
    check_same(by_edges, sum, "", 4);
}

TEST_SLOW(tracked_steps_are_carried_by_any_ranks, 60)
{
    static const char *const table[][SETTINGS] = {
        {GOSSIP, UNEVEN, "exchange.tracking=true"},
        {GOSSIP, "exchange.graph=ring", "exchange.tracking=true",
         "exchange.codec=int8"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_ranks("mlp", table[i], (const int32_t[]){2, 4, 0}, 4);
}

#define GPT "model=gpt", "model.width=24", "model.heads=3", "seq=9"

TEST(edges_that_cannot_be_are_refused)
{
    static const struct {
        const char *setting[SETTINGS], *message;
    } table[] = {
        {{GPT, FEW, "exchange.graph=edges"},
         "exchange.edges=0-1,1-2 would say"},
        {{GPT, FEW, "exchange.edges=0-1"}, "exchange.graph=edges would do"},
        {{GPT, FEW, "exchange.graph=edges", "exchange.edges=0-1,1+2"},
         "\"1+2\" is no edge"},
        {{GPT, FEW, "exchange.graph=edges", "exchange.edges=0-1,1-4"},
         "which are 0 to 3"},
        {{GPT, FEW, "exchange.graph=edges", "exchange.edges=0-1,2-3"},
         "replica 2 never hears of replica 0"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_refused(table[i].setting, table[i].message);
}
