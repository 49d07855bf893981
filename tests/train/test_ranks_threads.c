// Whole runs whose ranks are threads of one process, so that ThreadSanitizer sees all
// of them: loader, executor, wire, evaluation, checkpoints, report.

#include "base/alloc.h"
#include "base/file.h"
#include "check/rank_threads.h"
#include "runs.h"
#include "store/metrics.h"
#include "test.h"

#include <stdio.h>

static const char *const settings[] = {
    "model=gpt",          "model.layers=1",  "model.heads=2",
    "model.width=16",     "model.context=8", "data=synthetic",
    "data.size=300",      "data.classes=16", "batch=6",
    "accumulate=2",       "optim.lr=0.01",   "threads=1",
    "train.steps=6",      "log.every=2",     "eval.every=3",
    "checkpoint.every=2", "log.trace=true",  "train.ema=0.9",
    "sample.every=4",     "sample.tokens=3", "model.dropout=0.1"};
enum { N_SETTINGS = sizeof settings / sizeof settings[0], RANKS = 3 };

typedef struct task {
    const char *folder, *setting, *another;
} task;

static tt_status train(const task *t, const tt_peers *peers, tt_arena *arena)
{
    tt_settings all = {0};
    tt_session *session = NULL;
    tt_run_end end;
    const tt_train_request request = {.folder = t->folder};
    for (int i = 0; i < N_SETTINGS; i++)
        TT_TRY(tt_settings_assign(&all, settings[i], "test", arena));
    TT_TRY(tt_settings_assign(&all, t->setting, "test", arena));
    if (t->another != NULL)
        TT_TRY(tt_settings_assign(&all, t->another, "test", arena));
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

static void check_losses(const char *a, const char *b, const char *name)
{
    tt_arena *arena = tt_arena_create();
    tt_metrics x, y;
    CHECK_OK(tt_metrics_read(a, arena, &x));
    CHECK_OK(tt_metrics_read(b, arena, &y));
    const tt_metric_series *p = tt_metrics_find(&x, name);
    const tt_metric_series *q = tt_metrics_find(&y, name);
    CHECK(p != NULL && q != NULL && p->n == q->n);
    for (int64_t i = 0; i < p->n; i++)
        CHECK_CLOSE(p->value[i], q->value[i], 1e-4);
    tt_arena_destroy(arena);
}

static void check_threads(const char *folder, const char *zero)
{
    char path[64];
    task t = {folder, zero, NULL};
    CHECK_OK(tt_rank_threads_run(RANKS, 1 << 22, be_rank, &t));
    check_losses("alone", folder, "train/loss");
    check_losses("alone", folder, "val/loss");
    snprintf(path, sizeof path, "%s/trace.json", folder);
    CHECK(tt_file_exists(path));
    snprintf(path, sizeof path, "%s/ranks.json", folder);
    CHECK(tt_file_exists(path));
}

TEST_SLOW(ranks_as_threads_train_as_one_does, 180)
{
    const task alone = {"alone", "zero=0", NULL};
    const tt_peers nobody = {.size = 1, .on_host = 1};
    tt_arena *arena = tt_arena_create();
    runs_enter();
    CHECK_OK(train(&alone, &nobody, arena));
    check_threads("data", "zero=0");
    check_threads("zero1", "zero=1");
    check_threads("zero2", "zero=2");
    check_threads("zero3", "zero=3");
    tt_arena_destroy(arena);
    CHECK(tt_alloc_live() == 0);
    runs_leave();
}

static void check_workers(const char *folder, const char *policy,
                          const char *another)
{
    char path[64];
    task t = {folder, policy, another};
    CHECK_OK(tt_rank_threads_run(RANKS, 1 << 22, be_rank, &t));
    snprintf(path, sizeof path, "%s/workers.json", folder);
    CHECK(tt_file_exists(path));
    CHECK(tt_alloc_live() == 0);
}

// Without locks: every word that two ranks touch is touched by atomic instructions.
TEST_SLOW(ranks_as_threads_share_weights, 120)
{
    runs_enter();
    check_workers("hogwild", "exchange.policy=hogwild", "exchange.words=full");
    check_workers("narrow", "exchange.policy=hogwild", "exchange.words=bf16");
    runs_leave();
}

TEST_SLOW(ranks_as_threads_take_turns, 120)
{
    runs_enter();
    check_workers("adpsgd", "exchange.policy=adpsgd", "exchange.schedule=wall");
    check_workers("easgd", "exchange.policy=easgd", "exchange.schedule=wall");
    runs_leave();
}

// One rank runs out of memory somewhere: it says so, the others end too, nothing is
// left.
TEST_SLOW(ranks_as_threads_end_when_one_has_no_memory, 240)
{
    char folder[32];
    int n_failed = 0;
    task t = {folder, "zero=2", NULL};
    runs_enter();
    snprintf(folder, sizeof folder, "whole");
    tt_alloc_fail_at(0);
    CHECK_OK(tt_rank_threads_run(RANKS, 1 << 22, be_rank, &t));
    const int64_t all = tt_alloc_count();
    const int64_t apart = all / (TT_TEST_SANITIZED ? 5 : 20);
    for (int64_t k = 1; k < all; k += apart) {
        snprintf(folder, sizeof folder, "run%lld", (long long)k);
        tt_alloc_fail_at(k);
        const tt_status status =
            tt_rank_threads_run(RANKS, 1 << 22, be_rank, &t);
        tt_alloc_fail_at(0);
        CHECK_MSG(status != TT_ERR_TIMEOUT, "allocation %lld: %s", (long long)k,
                  tt_error_message());
        n_failed += status == TT_ERR_NOMEM;
        CHECK_MSG(tt_alloc_live() == 0, "allocation %lld leaks", (long long)k);
    }
    CHECK(n_failed > 0);
    runs_leave();
}
