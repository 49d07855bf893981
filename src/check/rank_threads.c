// rank_threads - see the header.
//
// A rank that fails marks itself as gone in the shared world, so that the others stop
// waiting for it. A rank whose thread could not be started is marked likewise.

#include "check/rank_threads.h"

#include "base/thread.h"
#include "comm/transport/shm.h"

#include <pthread.h>
#include <stdio.h>

static const double deadline = 20;

typedef struct rank {
    tt_shm_world *world;
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
    for (int32_t i = 0; i < n; i++)
        TT_TRY(tt_shm_open(r[i].world, i, deadline, &r[i].comm));
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

tt_status tt_rank_threads_run(int32_t n, int64_t rank_bytes,
                              tt_rank_threads_fn *fn, void *user)
{
    rank r[TT_RANK_THREADS_MOST] = {0};
    tt_shm_world *world = NULL;
    int32_t started = 0;
    TT_TRY(tt_shm_world_create(n, rank_bytes, &world));
    for (int32_t i = 0; i < n; i++)
        r[i] = (rank){.world = world, .fn = fn, .user = user};
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
