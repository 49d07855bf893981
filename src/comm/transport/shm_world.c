// shm_world - making the memory, and sleeping on it.
//
// The memory is reserved and not filled (MAP_NORESERVE): pages that no rank touches
// cost nothing, so each rank's part can be generous. Ranks that are forked inherit the
// mapping at the same address. Ranks
// that are started separately map a descriptor at an address that is free in all of
// them (meet.c).

#include "comm/transport/shm_world.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

typedef struct layout {
    int64_t seats, rings, stages, memory; // where each begins
    int64_t total;
} layout;

static layout layout_of(int64_t n, int64_t rank_bytes)
{
    layout l = {.seats = pages((int64_t)sizeof(tt_shm_world))};
    l.rings = l.seats + pages(n * (int64_t)sizeof(tt__seat));
    l.stages = l.rings + pages(n * n * (int64_t)sizeof(tt__ring));
    l.memory = l.stages + n * TT__STAGE_BYTES;
    l.total = l.memory + n * pages(rank_bytes);
    return l;
}

int64_t tt_shm_world_bytes(int32_t n_ranks, int64_t rank_bytes)
{
    return layout_of(n_ranks, rank_bytes).total;
}

static tt_shm_world *fill(char *block, int32_t n_ranks, int64_t rank_bytes)
{
    const layout l = layout_of(n_ranks, rank_bytes);
    tt_shm_world *world = (tt_shm_world *)block;
    *world = (tt_shm_world){.n_ranks = n_ranks,
                            .rank_bytes = pages(rank_bytes),
                            .total_bytes = l.total,
                            .seat = (tt__seat *)(block + l.seats),
                            .ring = (tt__ring *)(block + l.rings),
                            .stage = block + l.stages,
                            .memory = block + l.memory};
    return world;
}

static tt_status cannot_share(int64_t bytes)
{
    return tt_fail(TT_ERR_NOMEM,
                   "shm: cannot share %lld bytes between the ranks: %s",
                   (long long)bytes, strerror(errno));
}

tt_status tt_shm_world_create(int32_t n_ranks, int64_t rank_bytes,
                              tt_shm_world **world_out)
{
    if (n_ranks < 1 || rank_bytes < 0)
        return tt_fail(TT_ERR_ARG, "shm: %d ranks make no world", n_ranks);
    const int64_t total = tt_shm_world_bytes(n_ranks, rank_bytes);
    char *block = map_shared(total);
    if (block == NULL)
        return cannot_share(total);
    *world_out = fill(block, n_ranks, rank_bytes);
    return TT_OK;
}

static void *map_file(int fd, void *at, int64_t bytes)
{
    void *block = mmap(at, (size_t)bytes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0);
    if (block != MAP_FAILED && block != at) { // a kernel that does not know it
        (void)munmap(block, (size_t)bytes);
        errno = EEXIST;
        return NULL;
    }
    return block == MAP_FAILED ? NULL : block;
}

tt_status tt_shm_world_map(int fd, void *at, int32_t n_ranks,
                           int64_t rank_bytes, tt_shm_world **world_out)
{
    const int64_t total = tt_shm_world_bytes(n_ranks, rank_bytes);
    char *block = ftruncate(fd, total) == 0 ? map_file(fd, at, total) : NULL;
    if (block == NULL)
        return cannot_share(total);
    *world_out = fill(block, n_ranks, rank_bytes);
    return TT_OK;
}

tt_status tt_shm_world_attach(int fd, void *at, tt_shm_world **world_out)
{
    struct stat file = {0};
    void *block = fstat(fd, &file) == 0 ? map_file(fd, at, file.st_size) : NULL;
    if (block == NULL)
        return cannot_share(file.st_size);
    *world_out = block;
    return TT_OK;
}

void tt_shm_world_destroy(tt_shm_world *world)
{
    if (world != NULL)
        (void)munmap(world, (size_t)world->total_bytes);
}

bool tt_shm_world_has_lost(const tt_shm_world *world, int32_t rank)
{
    return atomic_load(&world->seat[rank].presence) == TT__FAILED;
}

static void set_presence(tt_shm_world *world, int32_t rank, int presence)
{
    atomic_store(&world->seat[rank].presence, presence);
    for (int32_t r = 0; r < world->n_ranks; r++)
        tt__bell_ring(&world->seat[r]);
}

void tt_shm_world_fail(tt_shm_world *world, int32_t rank)
{
    set_presence(world, rank, TT__FAILED);
}

void tt_shm_world_leave(tt_shm_world *world, int32_t rank)
{
    set_presence(world, rank, TT__LEFT);
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
