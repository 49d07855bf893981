// snapshot_room - the memory of snapshots: allocated once, used for every
// checkpoint.
//
// New memory is slow twice. The system clears each page when it is first touched,
// and a device copies at full speed only to pages that are pinned. Beside an H200
// that takes 0.19 s and 0.04 s for 1 GiB, and the copy itself 0.02 s (55 GB/s). So
// a thread does both while training begins, and the memory stays until training
// ends.

#include "base/alloc.h"
#include "base/thread.h"
#include "state/tensors.h"

#include <stdatomic.h>

enum { PAGE = 4096 };

// Atomic, since other ranks may look at shared memory already.
static void touch(const tt_snapshot *s)
{
    atomic_char *p = (atomic_char *)s->memory;
    for (int64_t i = 0; i < s->bytes; i += PAGE)
        atomic_store_explicit(&p[i], 0, memory_order_relaxed);
}

// Runs in the thread. Memory that cannot be pinned is used all the same; copies to
// it are slower.
static void *warm(void *user)
{
    tt_snapshot *s = user;
    touch(s);
    const tt_drain_def *drain = s->backend->def->drain;
    if (drain == NULL || drain->pin(s->backend, s->memory, s->bytes) != TT_OK)
        s->backend = NULL;
    return NULL;
}

// The thread has a pointer to the snapshot, which must therefore not be moved.
void tt__snapshot_warm(tt_exec *exec, tt_snapshot *s)
{
    s->backend = tt_exec_backend(exec);
    s->has_thread =
        tt_thread_start(&s->thread, warm, s, "room for a snapshot") == TT_OK;
    if (!s->has_thread)
        s->backend = NULL;
}

static void finish(tt_snapshot *s)
{
    if (s->has_thread)
        pthread_join(s->thread, NULL);
    s->has_thread = false;
}

void tt_snapshot_prepare(tt_exec *exec, const tt_tensors *all,
                         tt_snapshot *snapshot)
{
    if (!tt_tensors_are_first(all) || snapshot->memory != NULL)
        return;
    if (tt__snapshot_room(snapshot, tt_tensors_bytes(all)) == TT_OK)
        tt__snapshot_warm(exec, snapshot);
}

static void *take(const tt_snapshot *s, int64_t bytes)
{
    return s->lender != NULL
               ? tt_comm_wire_lend(s->lender, TT_LEND_SNAPSHOT, bytes)
               : tt_alloc_aligned(bytes + PAGE, PAGE);
}

static void give_back(const tt_snapshot *s)
{
    if (s->lender == NULL)
        tt_free_aligned(s->memory);
    else if (s->memory != NULL)
        tt_comm_wire_take_back(s->lender, TT_LEND_SNAPSHOT);
}

tt_status tt__snapshot_room(tt_snapshot *s, int64_t bytes)
{
    finish(s);
    if (s->memory != NULL && s->bytes >= bytes)
        return TT_OK;
    tt_snapshot_free(s);
    s->memory = take(s, bytes);
    if (s->memory == NULL)
        return tt_fail(TT_ERR_NOMEM,
                       "no memory for a snapshot of %lld bytes of state",
                       (long long)bytes);
    s->bytes = bytes;
    return TT_OK;
}

void tt_snapshot_free(tt_snapshot *s)
{
    finish(s);
    if (s->backend != NULL)
        s->backend->def->drain->unpin(s->backend, s->memory);
    give_back(s);
    s->backend = NULL;
    s->memory = NULL;
    s->bytes = 0;
}
