// Copies of a server's shards (exchange.chain), on ranks that are threads: what is passed on is
// k - 1 updates, to the byte; a copy that has other bits ends the run in a sentence that names
// shard and ranks. That the model is that of one rank is tests/e2e/async/chain.sh.

#include "base/alloc.h"
#include "check/rank_threads.h"
#include "job/dynamic/chain.h"
#include "test.h"
#include "train/families.h"
#include "train/jobs.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 4, STEPS = 2 };

typedef struct trial {
    int k;
    const char *more; // a setting
    // One bit of a state with this end of its name, of this shard, at this rank; -1: none.
    int32_t shard, rank;
    const char *end;
    int64_t sent[RANKS]; // bytes, in steps
    int64_t passed;      // as the server counts them
    int64_t n;           // bytes of weights and statistics
} trial;

static bool ends_with(const char *name, const char *end)
{
    const size_t n = strlen(name), k = strlen(end);
    return n >= k && strcmp(name + n - k, end) == 0;
}

static tt_status damage(const tt_job *job, const trial *t)
{
    for (int64_t i = 0; i < job->tensors.n; i++) {
        const tt_tensor *one = &job->tensors.v[i];
        if (one->bytes == 0 || !ends_with(one->name, t->end) ||
            tt__copies_head(job->dynamic, one) != t->shard)
            continue;
        char *data = tt_alloc(one->bytes);
        TT_TRY(tt_exec_read(job->exec, one->val, data));
        data[one->bytes - 1] ^= 1;
        const tt_status status = tt_tensor_write(job->exec, one, data);
        tt_free(data);
        return status;
    }
    return tt_fail(TT_ERR_STATE, "shard %d has no %s", t->shard, t->end);
}

static tt_status steps(tt_job *job, trial *t)
{
    const int32_t me = job->peers.rank;
    tt_step_result result;
    TT_TRY(tt_job_start(job, NULL));
    const int64_t before = job->peers.comm->stats.sent_bytes;
    for (int i = 0; i < STEPS; i++)
        TT_TRY(tt_job_step(job, tt_job_feed_random, NULL, &result));
    t->sent[me] = job->peers.comm->stats.sent_bytes - before;
    if (me == 0) {
        t->n = tt_vector_bytes(&job->dynamic->all);
        t->passed = (int64_t)job->dynamic->passed;
    }
    if (me == t->rank)
        TT_TRY(damage(job, t));
    return tt_job_settle(job);
}

static tt_status be_rank(tt_comm *comm, void *user)
{
    trial *t = user;
    char chain[32];
    snprintf(chain, sizeof chain, "exchange.chain=%d", t->k);
    const char *const more[] = {"exchange.policy=ps",
                                "exchange.server=sharded",
                                "exchange.replicas=8",
                                "batch=8",
                                "optim=adamw",
                                "optim.clip=0.1",
                                "threads=1",
                                chain,
                                t->more,
                                NULL};
    tt_settings settings = {0};
    tt_job *job = NULL;
    tt_arena *arena = tt_arena_create();
    tt_peers peers = {.rank = comm->rank,
                      .size = comm->size,
                      .on_host = comm->size,
                      .cores = 1,
                      .comm = comm};
    family_settings(family_named("mlp"), more, &settings, arena);
    tt_status status =
        tt_comm_wire_open(comm, &(tt_wire_options){0}, &peers.wire);
    if (status == TT_OK)
        status = tt_job_configure_peers(&settings, NULL, &peers, &job);
    if (status == TT_OK)
        status = steps(job, t);
    tt_job_close(job);
    tt_comm_wire_close(peers.wire);
    tt_arena_destroy(arena);
    return status;
}

static tt_status run(trial *t)
{
    return tt_rank_threads_run(RANKS, 1 << 20, be_rank, t);
}

static int64_t all_sent(const trial *t)
{
    int64_t sum = 0;
    for (int r = 0; r < RANKS; r++)
        sum += t->sent[r];
    return sum;
}

TEST_SLOW(an_update_is_passed_on_once_to_each_copy, 120)
{
    static const struct {
        const char *clock;
        int64_t updates;
    } of[] = {{"exchange.clock=bsp", STEPS},
              {"exchange.clock=async", 8 * STEPS}};
    for (int i = 0; i < 2; i++) {
        trial none = {.k = 1, .more = of[i].clock, .rank = -1};
        CHECK_OK(run(&none));
        CHECK(none.passed == 0 && all_sent(&none) > 0);
        for (int k = 2; k <= RANKS; k++) {
            trial t = {.k = k, .more = of[i].clock, .rank = -1};
            CHECK_OK(run(&t));
            const int64_t due = of[i].updates * (k - 1) * t.n;
            CHECK_MSG(t.passed == due, "%s, chain of %d: %lld of %lld bytes",
                      of[i].clock, k, (long long)t.passed, (long long)due);
            // Each worker has weights of all shards as before, from other ranks. With bsp as
            // often from each.
            CHECK_MSG(i > 0 || all_sent(&t) - all_sent(&none) == due,
                      "chain of %d: %lld bytes more on the wire than none, "
                      "%lld are due",
                      k, (long long)(all_sent(&t) - all_sent(&none)),
                      (long long)due);
        }
    }
    CHECK(tt_alloc_live() == 0);
}

// Of the shard of rank 2 ranks 2, 3 and 0 hold copies.
TEST_SLOW(a_copy_with_other_bits_ends_the_run, 120)
{
    static const struct {
        int32_t rank;
        const char *end, *says; // NULL: nothing
    } of[] = {{2, ".weight",
               "rank 3 has a copy with other bits than that of "
               "rank 2"},
              {3, ".weight", "rank 3 has a copy"},
              {0, ".weight",
               "rank 0 has a copy with other bits than that of "
               "rank 3"},
              {0, ".exp_avg_sq", "rank 0 has a copy"},
              {1, ".weight", NULL}, // holds none
              {-1, ".weight", NULL}};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        trial t = {.k = 3,
                   .more = "exchange.clock=ssp",
                   .shard = 2,
                   .rank = of[i].rank,
                   .end = of[i].end};
        const tt_status status = run(&t);
        if (of[i].says == NULL) {
            CHECK_OK(status);
            continue;
        }
        CHECK(status == TT_ERR_STATE);
        CHECK_MSG(strstr(tt_error_message(), of[i].says) != NULL &&
                      strstr(tt_error_message(),
                             "step 2: of rank 2's shard of the weights") !=
                          NULL,
                  "%s", tt_error_message());
    }
    CHECK(tt_alloc_live() == 0);
}
