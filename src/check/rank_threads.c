// rank_threads - see the header.
//
// A rank that fails marks itself as gone in the shared world, so that the others stop
// waiting for it. A rank whose thread could not be started is marked likewise.

#include "check/rank_threads.h"

#include "base/thread.h"
#include "comm/coll/coll.h"
#include "comm/transport/shm.h"

#include <pthread.h>
#include <stdio.h>

static const double deadline = 20;

typedef struct rank {
    tt_shm_world *world;
    const tt_comm_def *transport; // NULL: shared memory
    tt_comm *comm;
    tt_rank_threads_fn *fn;
    void *user;
    tt_status status;
    char message[512];
    pthread_t thread;
} rank;

static void *rank_main(void *user)
{
    rank *r = user;
    r->status = r->fn(r->comm, r->user);
    if (r->status != TT_OK) {
        snprintf(r->message, sizeof r->message, "rank %d: %s", r->comm->rank,
                 tt_error_message());
        tt_shm_world_fail(r->world, r->comm->rank);
    }
    return NULL;
}

static tt_status start(rank *r, int32_t n, int32_t *started_out)
{
    for (int32_t i = 0; i < n; i++) {
        TT_TRY(tt_shm_open(r[i].world, i, deadline, &r[i].comm));
        if (r[i].transport != NULL && r[i].transport->wrap != NULL)
            TT_TRY(r[i].transport->wrap(r[i].comm, &r[i].comm));
    }
    for (int32_t i = 0; i < n; i++) {
        TT_TRY(tt_thread_start(&r[i].thread, rank_main, &r[i], "a rank"));
        ++*started_out;
    }
    return TT_OK;
}

// The failure that explains most: ranks that only saw a peer fail come last.
static tt_status cause(const rank *r, int32_t n)
{
    for (int peers = 0; peers < 2; peers++)
        for (int32_t i = 0; i < n; i++)
            if (r[i].status != TT_OK &&
                (r[i].status == TT_ERR_PEER) == (peers == 1))
                return tt_fail(r[i].status, "%s", r[i].message);
    return TT_OK;
}

// `like` has what all ranks have in common.
static tt_status run(int32_t n, int64_t rank_bytes, const rank *like)
{
    rank r[TT_RANK_THREADS_MOST] = {0};
    tt_shm_world *world = NULL;
    int32_t started = 0;
    TT_TRY(tt_shm_world_create(n, rank_bytes, &world));
    for (int32_t i = 0; i < n; i++) {
        r[i] = *like;
        r[i].world = world;
    }
    tt_status status = start(r, n, &started);
    for (int32_t i = started; i < n; i++)
        tt_shm_world_fail(world, i);
    for (int32_t i = 0; i < started; i++)
        (void)pthread_join(r[i].thread, NULL);
    if (status == TT_OK)
        status = cause(r, n);
    for (int32_t i = 0; i < n; i++)
        tt_comm_close(r[i].comm);
    tt_shm_world_destroy(world);
    return status;
}

tt_status tt_rank_threads_run(int32_t n, int64_t rank_bytes,
                              tt_rank_threads_fn *fn, void *user)
{
    return run(n, rank_bytes, &(rank){.fn = fn, .user = user});
}

tt_status tt_rank_threads_run_over(const tt_comm_def *transport, int32_t n,
                                   tt_rank_threads_fn *fn, void *user)
{
    return run(n, 1 << 20,
               &(rank){.transport = transport, .fn = fn, .user = user});
}

const tt_backend_def *tt_rank_threads_device(const char *name)
{
    const tt_backend_def *asked = name != NULL ? tt_backend_find(name) : NULL;
    return asked != NULL && asked->queue != NULL ? asked
                                                 : tt_backend_find("ref");
}

bool tt_rank_threads_have_devices(const tt_backend_def *device, int32_t n)
{
    return device->count != NULL && device->device_comm != NULL &&
           device->count() >= n;
}

tt_status tt_rank_threads_add_up(tt_law_report *r)
{
    int64_t sums[3] = {r->n_checks, r->n_failed, (int64_t)r->bits};
    const tt_coll_call call = {
        .kind = TT_ALL_REDUCE,
        .group = {.n = r->comm->size, .me = r->comm->rank},
        .fold = {TT_FOLD_SUM, TT_NUM_I64},
        .count = 3,
        .in = sums,
        .out = sums};
    TT_TRY(tt_coll_run(tt_coll_find("naive"), r->comm, &call));
    r->n_checks = sums[0];
    r->n_failed = sums[1];
    r->bits = (uint64_t)sums[2];
    return TT_OK;
}
