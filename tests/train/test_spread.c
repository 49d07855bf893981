// Snapshots of states in parts: taking one sends nothing, whoever holds the parts; what
// the writer gets later is what was there then, in every bit, by shared memory and by
// messages.

#include "base/alloc.h"
#include "crew.h"
#include "jobs.h"
#include "state/spread.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum { STEPS = 6 };

typedef struct layout {
    const char *family;
    int32_t ranks;
    const char *setting[6]; // ends with NULL
} layout;

typedef struct task {
    const layout *layout;
    bool has_memory; // that ranks share
    int64_t plain;   // bytes that this rank sends in a step
    int32_t *n_good; // shared with ranks
} task;

static int64_t sent(const tt_job *job)
{
    tt_wire_stats stats;
    tt_comm_wire_stats(job->peers.wire, false, &stats);
    return stats.bytes;
}

static void check_same(tt_spread *spread, const tt_snapshot *want)
{
    const void *data = NULL;
    CHECK_OK(tt_spread_wait(spread));
    for (int64_t i = 0; i < want->n_model + want->n_optim; i++) {
        const tt_safetensor *t = i < want->n_model
                                     ? &want->model[i]
                                     : &want->optim[i - want->n_model];
        CHECK_OK(tt_spread_fetch(spread, t->name, &data));
        CHECK_MSG(memcmp(data, t->data, (size_t)t->bytes) == 0, "%s", t->name);
    }
}

// Steps go on while parts travel, and no step may change what was taken. With memory
// that ranks share no byte is sent for it; else a piece during a step, not more.
static tt_status take_and_step(const task *t, tt_job *job, tt_spread *spread,
                               const tt_snapshot *want)
{
    const int64_t bytes = tt_spread_to_carry(spread);
    const int64_t piece = bytes / 4 + 1;
    tt_step_result last;
    CHECK((bytes == 0) == t->has_memory);
    int64_t before = sent(job);
    TT_TRY(tt_spread_begin(spread, piece));
    for (int64_t i = 0; i < STEPS; i++) {
        TT_TRY(tt_job_step(job, tt_job_feed_random, NULL, &last));
        const int64_t extra = sent(job) - before - t->plain;
        CHECK_MSG(extra >= 0 && extra <= (t->has_memory ? 0 : piece),
                  "rank %d: %lld bytes more in step %lld", job->peers.rank,
                  (long long)extra, (long long)i);
        before = sent(job);
        TT_TRY(tt_spread_carry(spread));
    }
    TT_TRY(tt_spread_finish(spread));
    if (tt_peers_is_first(&job->peers))
        check_same(spread, want);
    return TT_OK;
}

static tt_status work(tt_job *job, tt_arena *arena, void *user)
{
    task *t = user; // this rank's own: it was forked
    tt_step_result last;
    tt_spread *spread = NULL;
    tt_snapshot want = {0};
    TT_TRY(tt_job_start(job, NULL));
    CHECK(tt_tensors_are_split(&job->tensors));
    TT_TRY(tt_spread_open(job->exec, &job->tensors, INT64_MAX, &spread));
    CHECK(spread != NULL);
    for (int k = 0; k < 2; k++) {
        const int64_t before = sent(job);
        TT_TRY(tt_job_step(job, tt_job_feed_random, NULL, &last));
        t->plain = sent(job) - before;
        TT_TRY(tt_snapshot_take(job->exec, &job->tensors, arena, &want));
        TT_TRY(take_and_step(t, job, spread, &want));
    }
    tt_spread_close(spread);
    // The memory is there again.
    TT_TRY(tt_spread_open(job->exec, &job->tensors, INT64_MAX, &spread));
    CHECK(spread != NULL && (tt_spread_to_carry(spread) == 0) == t->has_memory);
    tt_spread_close(spread);
    // A byte too few on any rank is too few for all.
    TT_TRY(tt_spread_open(
        job->exec, &job->tensors,
        tt_spread_bytes(job->graph, &job->tensors, 0, true) - 1, &spread));
    CHECK(spread == NULL);
    tt_snapshot_free(&want);
    return TT_OK;
}

static tt_status be_rank(const tt_launch_rank *rank, void *user)
{
    const task *t = user;
    TT_TRY(crew_be_rank(rank, family_named(t->layout->family),
                        t->layout->setting, work, user));
    __atomic_add_fetch(t->n_good, 1, __ATOMIC_SEQ_CST);
    return TT_OK;
}

static void run(const layout *l, bool has_memory)
{
    task t = {.layout = l, .has_memory = has_memory};
    t.n_good = mmap(NULL, sizeof *t.n_good, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(t.n_good != MAP_FAILED);
    const tt_launch_options options = {
        .n_ranks = l->ranks,
        .rank_bytes = has_memory ? INT64_C(1) << 28 : 1 << 12,
        .pin = false};
    CHECK_OK(tt_launch(&options, be_rank, &t));
    CHECK(*t.n_good == l->ranks);
    (void)munmap(t.n_good, sizeof *t.n_good);
}

static const layout layouts[] = {
    {"gpt", 2, {"batch=4", "zero=1", NULL}},
    {"gpt", 3, {"batch=6", "zero=3", "train.ema=0.5", NULL}},
    {"gpt", 4, {"batch=4", "zero=3", "mesh.tensor=2", NULL}},
    {"gpt", 4, {"batch=4", "mesh.tensor=2", NULL}},
    {"resnet", 2, {"batch=4", "zero=2", NULL}},
    {"llama", 2, {"batch=4", "precision=bf16", "zero=3", NULL}},
    {"gpt", 2, {"batch=4", "mesh.pipe=2", NULL}},
    {"gpt", 4, {"batch=4", "mesh.pipe=2", "zero=3", "train.ema=0.5", NULL}},
    {"resnet", 3, {"batch=4", "mesh.pipe=3", NULL}},
    {"llama", // large enough not to fit into the memory that ranks always share
     4,
     {"mesh.pipe=2", "mesh.tensor=2", "precision=bf16", "model.ff=400", NULL}},
};

enum { LAYOUTS = sizeof layouts / sizeof *layouts };

TEST_SLOW(spread_snapshots_are_read_in_place, 120)
{
    for (int i = 0; i < LAYOUTS; i++)
        run(&layouts[i], true);
}

TEST_SLOW(spread_snapshots_travel_in_pieces_during_steps, 120)
{
    for (int i = 0; i < LAYOUTS; i++)
        run(&layouts[i], false);
}
