// shm_world - making the memory, and sleeping on it.

#include "comm/transport/shm_world.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int64_t pages(int64_t bytes)
{
    const int64_t page = 64 << 10;
    return (bytes + page - 1) / page * page;
}

static void *map_shared(int64_t bytes)
{
    void *block = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

tt_status tt_shm_world_create(int32_t n_ranks, int64_t rank_bytes,
                              tt_shm_world **world_out)
{
    const int64_t n = n_ranks;
    const int64_t head = pages((int64_t)sizeof(tt_shm_world));
    const int64_t seats = pages(n * (int64_t)sizeof(tt__seat));
    const int64_t rings = pages(n * n * (int64_t)sizeof(tt__ring));
    if (n_ranks < 1 || rank_bytes < 0)
        return tt_fail(TT_ERR_ARG, "shm: %d ranks make no world", n_ranks);
    rank_bytes = pages(rank_bytes);
    const int64_t stages = n * TT__STAGE_BYTES;
    const int64_t total = head + seats + rings + stages + n * rank_bytes;
    char *block = map_shared(total);
    if (block == NULL)
        return tt_fail(TT_ERR_NOMEM,
                       "shm: cannot share %lld bytes between %d ranks: %s",
                       (long long)total, n_ranks, strerror(errno));
    tt_shm_world *world = (tt_shm_world *)block;
    *world = (tt_shm_world){.n_ranks = n_ranks,
                            .rank_bytes = rank_bytes,
                            .total_bytes = total,
                            .seat = (tt__seat *)(block + head),
                            .ring = (tt__ring *)(block + head + seats),
                            .stage = block + head + seats + rings,
                            .memory = block + head + seats + rings + stages};
    *world_out = world;
    return TT_OK;
}

void tt_shm_world_destroy(tt_shm_world *world)
{
    if (world != NULL)
        (void)munmap(world, (size_t)world->total_bytes);
}

void tt_shm_world_fail(tt_shm_world *world, int32_t rank)
{
    atomic_store(&world->seat[rank].presence, TT__FAILED);
    for (int32_t r = 0; r < world->n_ranks; r++)
        tt__bell_ring(&world->seat[r]);
}

void tt__bell_ring(tt__seat *seat)
{
    if (atomic_load(&seat->n_asleep) == 0)
        return;
    (void)atomic_fetch_add(&seat->bell, 1);
    (void)syscall(SYS_futex, &seat->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void tt__bell_wait(tt__seat *seat, unsigned seen, double seconds)
{
    const struct timespec most = {
        .tv_sec = (time_t)seconds,
        .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    (void)syscall(SYS_futex, &seat->bell, FUTEX_WAIT, seen, &most, NULL, 0);
}
