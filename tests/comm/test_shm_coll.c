// Collectives in the shared memory itself: naive's bits, whatever memory and group,
// and what they count is what members read of each other.

#include "base/rng.h"
#include "comm/coll/coll.h"
#include "comm/transport/shm.h"
#include "test.h"

#include <pthread.h>
#include <string.h>

enum { MAX_RANKS = 5, COUNT = 600009 };

typedef struct actor {
    tt_comm *comm;
    bool is_shared;
    tt_status status;
} actor;

static float private_memory[MAX_RANKS][3][COUNT];

static tt_coll_call call_for(const actor *a, tt_coll_kind kind, int64_t count)
{
    return (tt_coll_call){.kind = kind,
                          .group = {.n = a->comm->size, .me = a->comm->rank},
                          .fold = {TT_FOLD_SUM, TT_NUM_F32},
                          .count = count};
}

static tt_status compare(const actor *a, tt_coll_kind kind, int64_t count,
                         float *const memory[3])
{
    const tt_coll_def *naive = tt_coll_find("naive");
    const tt_coll_def *native = tt_coll_find("native");
    tt_coll_call call = call_for(a, kind, count);
    const tt_block mine = tt_coll_block(&call, call.group.me);
    const int64_t n = kind == TT_REDUCE_SCATTER ? mine.n : count;
    const uint64_t key = tt_rng_key(3, "shm", (uint64_t)a->comm->rank);
    static float scratch[MAX_RANKS][COUNT];
    for (int64_t i = 0; i < count; i++)
        memory[0][i] = (float)tt_rng_normal(key, (uint64_t)i);
    call.in = memory[0];
    call.out = memory[1];
    call.scratch = scratch[a->comm->rank];
    TT_TRY(tt_coll_run(naive, a->comm, &call));
    call.out = memory[2];
    call.scratch = NULL;
    const tt_comm_stats before = a->comm->stats;
    TT_TRY(tt_coll_run(native, a->comm, &call));
    const tt_comm_stats *after = &a->comm->stats;
    if (memcmp(memory[1], memory[2], (size_t)n * 4) != 0)
        return tt_fail(TT_ERR_STATE, "%s of %lld: other bits than naive",
                       tt_coll_name(kind), (long long)count);
    const int64_t others = a->comm->size - 1;
    const int64_t rounds = (kind == TT_ALL_REDUCE ? 2 : 1) * others;
    if (after->received_messages - before.received_messages != rounds ||
        after->sent_messages - before.sent_messages != rounds)
        return tt_fail(TT_ERR_STATE, "%s of %lld: not %lld messages",
                       tt_coll_name(kind), (long long)count, (long long)rounds);
    const int64_t given = 4 * (count - mine.n), own = 4 * others * mine.n;
    const int64_t want = kind == TT_ALL_REDUCE       ? given + own
                         : kind == TT_REDUCE_SCATTER ? given
                                                     : own;
    if (after->sent_bytes - before.sent_bytes != want)
        return tt_fail(TT_ERR_STATE, "%s of %lld: counted %lld bytes, not %lld",
                       tt_coll_name(kind), (long long)count,
                       (long long)(after->sent_bytes - before.sent_bytes),
                       (long long)want);
    return TT_OK;
}

static tt_status compare_all(const actor *a)
{
    static const int64_t counts[] = {0, 1, 3, 1009, COUNT};
    static const tt_coll_kind kinds[] = {TT_ALL_REDUCE, TT_REDUCE_SCATTER,
                                         TT_ALL_GATHER};
    float *memory[3];
    for (int i = 0; i < 3; i++)
        memory[i] = a->is_shared ? tt_comm_alloc(a->comm, COUNT * 4)
                                 : private_memory[a->comm->rank][i];
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 5; i++)
            TT_TRY(compare(a, kinds[k], counts[i], memory));
    return TT_OK;
}

static void *act(void *user)
{
    actor *a = user;
    a->status = compare_all(a);
    return NULL;
}

static void *act_in_threads(void *user)
{
    actor *a = user;
    a->comm->fold_threads = 3;
    a->status = compare_all(a);
    return NULL;
}

typedef void *thread_fn(void *user);

static void play(int32_t n, unsigned shared, thread_fn *fn)
{
    tt_shm_world *world = NULL;
    pthread_t thread[MAX_RANKS];
    actor actors[MAX_RANKS] = {0};
    CHECK_OK(tt_shm_world_create(n, 3 * (COUNT * 4 + 64), &world));
    for (int32_t i = 0; i < n; i++) {
        actors[i].is_shared = shared >> i & 1;
        CHECK_OK(tt_shm_open(world, i, 30, &actors[i].comm));
    }
    for (int32_t i = 0; i < n; i++)
        CHECK(pthread_create(&thread[i], NULL, fn, &actors[i]) == 0);
    for (int32_t i = 0; i < n; i++) {
        CHECK(pthread_join(thread[i], NULL) == 0);
        CHECK_OK(actors[i].status);
        tt_comm_close(actors[i].comm);
    }
    tt_shm_world_destroy(world);
}

TEST(shm_collectives_have_the_bits_of_naive)
{
    for (int32_t n = 1; n <= MAX_RANKS; n++) {
        play(n, 0, act);    // ordinary memory: through the stages
        play(n, 0xff, act); // shared: in place
        play(n, 1, act);    // mixed
    }
}

TEST(shm_folds_by_several_threads_have_the_same_bits)
{
    play(2, 0xff, act_in_threads);
}

// Rows and columns of a grid of ranks, in turn: groups that overlap.
static tt_status cross(tt_comm *comm)
{
    const int32_t row[] = {comm->rank / 2 * 2, comm->rank / 2 * 2 + 1};
    const int32_t column[] = {comm->rank % 2, comm->rank % 2 + 2};
    static float data[MAX_RANKS][1009];
    float *mine = data[comm->rank];
    for (int k = 0; k < 200; k++) {
        const tt_group g[] = {{.n = 2, .me = comm->rank % 2, .rank = row},
                              {.n = 2, .me = comm->rank / 2, .rank = column}};
        for (int i = 0; i < 1009; i++)
            mine[i] = (float)(comm->rank + i + k);
        for (int i = 0; i < 2; i++) {
            const tt_coll_call call = {.kind = TT_ALL_REDUCE,
                                       .group = g[i],
                                       .fold = {TT_FOLD_SUM, TT_NUM_F32},
                                       .count = 1009,
                                       .in = mine,
                                       .out = mine};
            TT_TRY(tt_coll_run(tt_coll_find("native"), comm, &call));
        }
        for (int i = 0; i < 1009; i++)
            if (mine[i] != (float)(6 + 4 * (i + k)))
                return tt_fail(TT_ERR_STATE, "round %d: element %d", k, i);
    }
    return TT_OK;
}

static void *act_cross(void *user)
{
    actor *a = user;
    a->status = cross(a->comm);
    return NULL;
}

TEST(shm_collectives_of_groups_that_overlap_do_not_mix)
{
    play(4, 0, act_cross);
}

static void *reduce_one(void *user)
{
    actor *a = user;
    float x = 1;
    tt_coll_call call = call_for(a, TT_ALL_REDUCE, 1);
    call.in = call.out = &x;
    a->status = tt_coll_run(tt_coll_find("native"), a->comm, &call);
    return NULL;
}

// All of three but `absent` reduce; each must end with this status.
static void reduce_without(actor *actors, int32_t absent, tt_status status)
{
    pthread_t thread[3];
    for (int32_t i = 0; i < 3; i++)
        if (i != absent)
            CHECK(pthread_create(&thread[i], NULL, reduce_one, &actors[i]) ==
                  0);
    for (int32_t i = 0; i < 3; i++) {
        if (i == absent)
            continue;
        CHECK(pthread_join(thread[i], NULL) == 0);
        CHECK_MSG(actors[i].status == status, "rank %d: status %d", i,
                  (int)actors[i].status);
    }
}

TEST(shm_collectives_wait_no_longer_than_the_deadline)
{
    tt_shm_world *world = NULL;
    actor actors[3] = {0};
    CHECK_OK(tt_shm_world_create(3, 0, &world));
    for (int32_t i = 0; i < 3; i++)
        CHECK_OK(tt_shm_open(world, i, 0.2, &actors[i].comm));
    reduce_without(actors, 1, TT_ERR_TIMEOUT);
    for (int32_t i = 0; i < 3; i++)
        tt_comm_close(actors[i].comm);
    tt_shm_world_destroy(world);
}

// It is the last of the group, so that all others are waited for before it.
TEST(a_rank_that_left_is_not_waited_for)
{
    tt_shm_world *world = NULL;
    actor actors[3] = {0};
    CHECK_OK(tt_shm_world_create(3, 0, &world));
    for (int32_t i = 0; i < 3; i++)
        CHECK_OK(tt_shm_open(world, i, 30, &actors[i].comm));
    tt_comm_close(actors[2].comm);
    reduce_without(actors, 2, TT_ERR_PEER);
    for (int32_t i = 0; i < 2; i++)
        tt_comm_close(actors[i].comm);
    tt_shm_world_destroy(world);
}
