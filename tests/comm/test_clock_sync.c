// Clocks that differ are found out; one clock is known as one.

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/clock_sync.h"
#include "comm/transport/shm.h"
#include "test.h"

#include <pthread.h>

enum { RANKS = 3, ROUNDS = 20 };

typedef struct peer { // a rank that is a thread
    tt_comm *comm;
    double ahead; // of its clock
    int rounds;
    tt_clock_bound bound[RANKS];
    double when;
    tt_status status;
} peer;

static tt_status call(void *user, const tt_coll_call *call)
{
    const peer *p = user;
    tt_coll_call mine = *call;
    mine.group = (tt_group){.n = p->comm->size, .me = p->comm->rank};
    return tt_coll_run(tt_coll_find("naive"), p->comm, &mine);
}

static double now(void *user)
{
    return tt_clock_seconds() + ((const peer *)user)->ahead;
}

static void *run(void *user)
{
    peer *p = user;
    const tt_clock_peers peers = {p->comm->rank, p->comm->size, call, now, p};
    p->status = tt_clock_sync(&peers, p->rounds, p->bound, &p->when);
    return NULL;
}

static void sync_all(peer *p, int rounds)
{
    tt_shm_world *world = NULL;
    pthread_t thread[RANKS];
    CHECK_OK(tt_shm_world_create(RANKS, 1 << 16, &world));
    for (int r = 0; r < RANKS; r++) {
        p[r].rounds = r == 0 ? rounds : -1;
        CHECK_OK(tt_shm_open(world, r, 10, &p[r].comm));
    }
    for (int r = 0; r < RANKS; r++)
        CHECK(pthread_create(&thread[r], NULL, run, &p[r]) == 0);
    for (int r = 0; r < RANKS; r++) {
        CHECK(pthread_join(thread[r], NULL) == 0);
        CHECK(p[r].status == TT_OK);
        tt_comm_close(p[r].comm);
    }
    tt_shm_world_destroy(world);
}

TEST(clock_sync_knows_one_clock_as_one)
{
    peer p[RANKS] = {0};
    sync_all(p, ROUNDS);
    for (int r = 0; r < RANKS; r++)
        for (int other = 0; other < RANKS; other++)
            CHECK(tt_clock_bound_offset(&p[r].bound[other]) == 0);
}

TEST(clock_sync_finds_offsets_on_every_rank)
{
    const double ahead[RANKS] = {1000, -2345.678, 1000.25};
    peer p[RANKS] = {0};
    for (int r = 0; r < RANKS; r++)
        p[r].ahead = ahead[r];
    sync_all(p, ROUNDS);
    for (int r = 0; r < RANKS; r++) {
        for (int other = 0; other < RANKS; other++) {
            const tt_clock_bound *b = &p[r].bound[other];
            const double is = ahead[other] - ahead[0];
            CHECK(b->low <= is + 1e-6 && is - 1e-6 <= b->high);
            CHECK_MSG(fabs(tt_clock_bound_offset(b) - is) < 0.02,
                      "rank %d: %g, not %g", other, tt_clock_bound_offset(b),
                      is);
        }
        CHECK(p[r].when == p[0].when);
    }
}

TEST(clock_sync_of_no_round_says_nothing)
{
    peer p[RANKS] = {0};
    for (int r = 0; r < RANKS; r++)
        p[r].bound[1] = (tt_clock_bound){3, 4};
    sync_all(p, 0);
    for (int r = 0; r < RANKS; r++)
        CHECK(p[r].bound[1].low == 3 && p[r].when == 0);
}

TEST(clock_bound_joins_the_quickest_ways)
{
    tt_clock_bound b = TT_CLOCK_UNKNOWN;
    CHECK(tt_clock_bound_offset(&b) == 0);
    tt_clock_bound_add(&b, 10, 15.1, 20); // slow back
    tt_clock_bound_add(&b, 30, 35.9, 31); // slow there
    CHECK(fabs(b.low - 4.9) < 1e-9 && fabs(b.high - 5.1) < 1e-9);
    CHECK(fabs(tt_clock_bound_offset(&b) - 5) < 1e-9);
}
