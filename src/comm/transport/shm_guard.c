// shm_guard - a thread that gives this rank's heartbeat and looks at the others' beats
// and processes.
//
// For ranks that have no parent to watch them (torchrun, started by hand). There are
// two signs, and they find different faults. A process that has ended is noticed at
// once, by a pidfd that becomes readable. A process that is stopped or hangs is
// noticed when its beats do not change for the deadline. The first guard that notices
// marks the rank as failed in the shared memory and wakes all others.

#include "comm/transport/shm_guard.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "comm/transport/shm_world.h"

#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BEAT_MS = 100 };

typedef struct watched { // a peer
    int process;         // a descriptor of it; -1: none yet
    unsigned beats;
    double beat_at; // 0: not heard yet
} watched;

struct tt_shm_guard {
    tt_shm_world *world;
    int32_t rank;
    double deadline;
    int bell; // rung to end
    pthread_t thread;
    watched *peer;
    struct pollfd *poll;
};

static void give_up(const tt_shm_guard *g, int32_t rank, tt__shm_loss how)
{
    tt__seat *seat = &g->world->seat[rank];
    const int presence = atomic_load(&seat->presence);
    if (presence == TT__LEFT || presence == TT__FAILED)
        return;
    atomic_store(&seat->loss, how);
    tt_shm_world_fail(g->world, rank);
}

static void look_at_beats(const tt_shm_guard *g, int32_t rank, double now)
{
    watched *p = &g->peer[rank];
    const unsigned beats = atomic_load(&g->world->seat[rank].beats);
    if (beats != p->beats) {
        p->beats = beats;
        p->beat_at = now;
    } else if (p->beat_at > 0 && now - p->beat_at > g->deadline) {
        give_up(g, rank, TT__LOST_SILENT);
    }
}

// Where processes cannot be opened their beats must do.
static void look_for_process(const tt_shm_guard *g, int32_t rank)
{
    watched *p = &g->peer[rank];
    const int pid = atomic_load(&g->world->seat[rank].pid);
    if (p->process >= 0 || pid == 0)
        return;
    p->process = (int)syscall(SYS_pidfd_open, pid, 0);
    g->poll[rank].fd = p->process;
}

static void *watch(void *user)
{
    tt_shm_guard *g = user;
    const int32_t n = g->world->n_ranks;
    // Who slept so long itself, perhaps with all others, has missed their beats.
    const double asleep = fmax(g->deadline / 2, g->deadline - 4e-3 * BEAT_MS);
    double looked_at = tt_clock_seconds();
    for (;;) {
        (void)atomic_fetch_add(&g->world->seat[g->rank].beats, 1);
        if (poll(g->poll, (nfds_t)n, BEAT_MS) > 0 &&
            g->poll[g->rank].revents != 0)
            return NULL;
        const double now = tt_clock_seconds();
        for (int32_t r = 0; r < n; r++) {
            if (r == g->rank)
                continue;
            if (now - looked_at > asleep)
                g->peer[r].beat_at = now;
            if (g->poll[r].revents != 0) {
                give_up(g, r, TT__LOST_GONE);
                g->poll[r].fd = -1; // its beats end too, and it is known
            }
            look_for_process(g, r);
            look_at_beats(g, r, now);
        }
        looked_at = now;
    }
}

static tt_status start_thread(tt_shm_guard *g)
{
    return tt_thread_start(&g->thread, watch, g, "the watch over ranks");
}

static void release(tt_shm_guard *g)
{
    for (int32_t r = 0; g->peer != NULL && r < g->world->n_ranks; r++)
        if (g->peer[r].process >= 0)
            (void)close(g->peer[r].process);
    if (g->bell >= 0)
        (void)close(g->bell);
    tt_free(g->peer);
    tt_free(g->poll);
    tt_free(g);
}

tt_status tt_shm_guard_start(tt_shm_world *world, int32_t rank, double deadline,
                             tt_shm_guard **guard_out)
{
    const int64_t n = world->n_ranks;
    tt_shm_guard *g = tt_alloc(sizeof *g);
    if (g == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to look at the ranks");
    *g = (tt_shm_guard){
        .world = world, .rank = rank, .deadline = deadline, .bell = -1};
    g->peer = tt_alloc(n * (int64_t)sizeof *g->peer);
    g->poll = tt_alloc(n * (int64_t)sizeof *g->poll);
    g->bell = eventfd(0, EFD_CLOEXEC);
    for (int32_t r = 0; g->peer != NULL && r < n; r++)
        g->peer[r].process = -1;
    for (int32_t r = 0; g->poll != NULL && r < n; r++)
        g->poll[r] =
            (struct pollfd){.fd = r == rank ? g->bell : -1, .events = POLLIN};
    atomic_store(&world->seat[rank].pid, (int)getpid());
    // The first beat comes before the first message: who never beat is not missed.
    (void)atomic_fetch_add(&world->seat[rank].beats, 1);
    const tt_status status =
        g->peer == NULL || g->poll == NULL || g->bell < 0
            ? tt_fail(TT_ERR_NOMEM, "no memory to look at the ranks")
            : start_thread(g);
    if (status != TT_OK) {
        release(g);
        return status;
    }
    *guard_out = g;
    return TT_OK;
}

void tt_shm_guard_stop(tt_shm_guard *g)
{
    if (g == NULL)
        return;
    (void)eventfd_write(g->bell, 1);
    (void)pthread_join(g->thread, NULL);
    release(g);
}
