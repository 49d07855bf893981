// Workers at their own pace: ranks that are threads of one process, so that ThreadSanitizer
// sees all of them; and the state of workers that a checkpoint holds, whole and damaged.

#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"
#include "check/rank_threads.h"
#include "job/workers.h"
#include "test.h"
#include "train/jobs.h"
#include "train/runs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- ranks as threads ----------------------------------------------------

static const char *const settings[] = {
    "model=mlp",
    "model.layers=1",
    "model.width=8",
    "data=synthetic",
    "image=4",
    "batch=12",
    "optim=momentum",
    "optim.lr=0.05",
    "threads=1",
    "train.steps=8",
    "log.every=3",
    "eval.every=4",
    "checkpoint.every=2",
    "exchange.policy=ps",
    "exchange.replicas=6",
    "log.trace=true",
    "comm.fault=jitter",
};
enum { N_SETTINGS = sizeof settings / sizeof settings[0], RANKS = 3 };

typedef struct task {
    const char *folder;
    const char *more[4]; // ends with NULL
} task;

static tt_status train(const task *t, const tt_peers *peers, tt_arena *arena)
{
    tt_settings all = {0};
    tt_session *session = NULL;
    tt_run_end end;
    const tt_train_request request = {.folder = t->folder};
    for (int i = 0; i < N_SETTINGS; i++)
        TT_TRY(tt_settings_assign(&all, settings[i], "test", arena));
    for (int i = 0; t->more[i] != NULL; i++)
        TT_TRY(tt_settings_assign(&all, t->more[i], "test", arena));
    TT_TRY(tt_session_open_peers(&all, NULL, true, peers, &session));
    const tt_status status = tt_train(session, &request, &end);
    tt_session_close(session);
    return status;
}

static tt_status be_rank(tt_comm *comm, void *user)
{
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory");
    tt_peers peers = {.rank = comm->rank,
                      .size = comm->size,
                      .on_host = comm->size,
                      .cores = 1,
                      .comm = comm,
                      .text = "threads"};
    tt_status status =
        tt_comm_wire_open(comm, &(tt_wire_options){.trace = true}, &peers.wire);
    if (status == TT_OK)
        status = train(user, &peers, arena);
    tt_comm_wire_close(peers.wire);
    tt_arena_destroy(arena);
    return status;
}

static void read_model(const char *folder, tt_str *out)
{
    char path[96];
    snprintf(path, sizeof path,
             "%s/checkpoints/step-00000008/model.safetensors", folder);
    CHECK_OK(tt_file_read(path, 1 << 24, out));
}

static void check_same_model(const char *a, const char *b)
{
    tt_str x = {0}, y = {0};
    read_model(a, &x);
    read_model(b, &y);
    CHECK_MSG(x.n == y.n &&
                  memcmp(tt_str_text(&x), tt_str_text(&y), (size_t)x.n) == 0,
              "%s and %s differ", a, b);
    tt_str_fini(&x);
    tt_str_fini(&y);
}

static void run_threads(const task *t)
{
    task own = *t;
    CHECK_OK(tt_rank_threads_run(RANKS, 1 << 20, be_rank, &own));
}

TEST_SLOW(ranks_as_threads_have_seeded_workers, 120)
{
    const tt_peers nobody = {.size = 1, .on_host = 1};
    const task alone = {"alone", {"exchange.clock=ssp"}};
    tt_arena *arena = tt_arena_create();
    runs_enter();
    CHECK_OK(train(&alone, &nobody, arena));
    run_threads(&(task){"single", {"exchange.clock=ssp"}});
    run_threads(
        &(task){"shards", {"exchange.clock=ssp", "exchange.server=sharded"}});
    run_threads(&(task){
        "chain",
        {"exchange.clock=ssp", "exchange.server=sharded", "exchange.chain=3"}});
    check_same_model("alone", "single");
    check_same_model("alone", "shards");
    check_same_model("alone", "chain");
    tt_arena_destroy(arena);
    CHECK(tt_alloc_live() == 0);
    runs_leave();
}

TEST_SLOW(ranks_as_threads_have_workers_by_the_wall_clock, 120)
{
    static const char *const clock[] = {
        "exchange.clock=async", "exchange.clock=ssp", "exchange.clock=backup"};
    const tt_peers nobody = {.size = 1, .on_host = 1};
    tt_arena *arena = tt_arena_create();
    runs_enter();
    for (int i = 0; i < 3; i++) {
        char wall[32], again[32], list[64];
        snprintf(wall, sizeof wall, "wall%d", i);
        snprintf(again, sizeof again, "again%d", i);
        snprintf(list, sizeof list, "exchange.schedule=%s/schedule.txt", wall);
        run_threads(&(task){wall, {clock[i], "exchange.schedule=wall"}});
        const task repeat = {again, {clock[i], list}};
        CHECK_OK(train(&repeat, &nobody, arena));
        check_same_model(wall, again);
    }
    tt_arena_destroy(arena);
    CHECK(tt_alloc_live() == 0);
    runs_leave();
}

// ---- a state that is damaged ---------------------------------------------

static const char *const held[] = {"batch=12",
                                   "exchange.policy=ps",
                                   "exchange.replicas=4",
                                   "exchange.clock=softsync",
                                   "exchange.bound=3",
                                   NULL};

// A state in which gradients wait for an update.
static void save_some(made *m, tt_str *out)
{
    for (int i = 0; i < 4; i++)
        (void)step_job(m);
    CHECK_OK(tt_job_workers_save(m->job, out));
}

TEST(a_state_of_workers_goes_there_and_back)
{
    made m = start_job(family_named("mlp"), held, false);
    tt_str one = {0}, two = {0};
    save_some(&m, &one);
    CHECK_OK(tt_job_workers_load(m.job, tt_str_text(&one), one.n));
    CHECK_OK(tt_job_workers_save(m.job, &two));
    CHECK(one.n == two.n &&
          memcmp(tt_str_text(&one), tt_str_text(&two), (size_t)one.n) == 0);
    // After a run with copies of shards there is a number more.
    double passed = 4096;
    tt_str_clear(&two);
    tt_str_add_bytes(&one, (const char *)&passed, sizeof passed);
    CHECK_OK(tt_job_workers_load(m.job, tt_str_text(&one), one.n));
    CHECK_OK(tt_job_workers_save(m.job, &two));
    CHECK(one.n == two.n &&
          memcmp(tt_str_text(&one), tt_str_text(&two), (size_t)one.n) == 0);
    passed = (double)NAN;
    tt_str_clear(&two);
    tt_str_add_bytes(&two, tt_str_text(&one), one.n - (int64_t)sizeof passed);
    tt_str_add_bytes(&two, (const char *)&passed, sizeof passed);
    CHECK(tt_job_workers_load(m.job, tt_str_text(&two), two.n) == TT_ERR_ARG);
    tt_str_fini(&one);
    tt_str_fini(&two);
    close_job(&m);
}

// The first numbers are a head, the rules' and the times'; each is made into something else.
// Whatever is let through, a step can be made with it.
TEST_SLOW(a_state_of_workers_that_is_damaged_is_refused, 120)
{
    static const double wrong[] = {(double)NAN, -1, 1e300, 0.5};
    made m = start_job(family_named("mlp"), held, false);
    tt_str good = {0};
    save_some(&m, &good);
    char *bad = tt_alloc(good.n + 8);
    int n_refused = 0, n_tried = 0;
    CHECK(bad != NULL && good.n > 1000 * (int64_t)sizeof(double));
    for (int64_t at = 0; at < 140; at++, n_tried++) {
        memcpy(bad, tt_str_text(&good), (size_t)good.n);
        memcpy(bad + at * (int64_t)sizeof(double), &wrong[at % 4],
               sizeof(double));
        const tt_status status = tt_job_workers_load(m.job, bad, good.n);
        CHECK(status == TT_OK || status == TT_ERR_ARG);
        n_refused += status == TT_ERR_ARG;
        if (status == TT_OK)
            (void)step_job(&m);
    }
    CHECK_MSG(n_refused >= n_tried - 12, "%d of %d refused", n_refused,
              n_tried);
    for (int64_t n = 0; n < good.n; n += good.n / 7 + 1)
        CHECK(n == 0 ||
              tt_job_workers_load(m.job, tt_str_text(&good), n) == TT_ERR_ARG);
    CHECK_OK(tt_job_workers_load(m.job, tt_str_text(&good), good.n));
    (void)step_job(&m);
    tt_free(bad);
    tt_str_fini(&good);
    close_job(&m);
}
