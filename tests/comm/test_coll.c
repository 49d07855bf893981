// Every collective by every algorithm in two groups at once: many ranks in an odd
// order, and the few that are left; in place too, where that is allowed. Nothing is
// written beyond a result.

#include "base/alloc.h"
#include "comm/coll/coll.h"
#include "comm/transport/shm.h"
#include "test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 21, MOST = 1009, GUARD = 4 };

typedef struct actor {
    tt_shm_world *world;
    tt_comm *comm;
    tt_status status;
    char message[160];
} actor;

// Ranks 0, 7 and 14 are the few; the many go down, and then round by five.
static tt_group group_of(int32_t rank, int32_t *member)
{
    tt_group g = {.n = 0, .rank = member};
    const bool is_few = rank % 7 == 0;
    for (int32_t i = 0; i < RANKS; i++) {
        const int32_t r = (RANKS - 1 - i) * 5 % RANKS;
        if ((r % 7 == 0) != is_few)
            continue;
        if (r == rank)
            g.me = g.n;
        member[g.n++] = r;
    }
    return g;
}

// Element i of what member m has.
static int64_t value(int32_t m, int64_t i)
{
    return (m * 31 + i * 7) % 101;
}

static int64_t sum(const tt_coll_call *call, int64_t i)
{
    int64_t all = 0;
    for (int32_t m = 0; m < call->group.n; m++)
        all += value(m, i);
    return all;
}

static int32_t owner(const tt_coll_call *call, int64_t i)
{
    int32_t m = 0;
    while (i >= tt_block_of(call->count, call->group.n, m + 1).first &&
           m + 1 < call->group.n)
        m++;
    return m;
}

// How many elements the result has, and element i of it.
static int64_t result_count(const tt_coll_call *call)
{
    const tt_block mine =
        tt_block_of(call->count, call->group.n, call->group.me);
    const bool is_root = call->group.me == call->root;
    switch (call->kind) {
    case TT_REDUCE_TO:
    case TT_GATHER:
        return is_root ? call->count : 0;
    case TT_REDUCE_SCATTER:
    case TT_SCATTER:
        return mine.n;
    case TT_ALL_TO_ALL:
        return mine.n * call->group.n;
    case TT_BARRIER:
        return 0;
    default:
        return call->count;
    }
}

static int64_t result(const tt_coll_call *call, int64_t i)
{
    const tt_block mine =
        tt_block_of(call->count, call->group.n, call->group.me);
    switch (call->kind) {
    case TT_ALL_REDUCE:
    case TT_REDUCE_TO:
        return sum(call, i);
    case TT_REDUCE_SCATTER:
        return sum(call, mine.first + i);
    case TT_BROADCAST:
        return value(call->root, i);
    case TT_SCATTER:
        return value(call->root, mine.first + i);
    case TT_ALL_TO_ALL:
        return value((int32_t)(i / mine.n), mine.first + i % mine.n);
    default:
        return value(owner(call, i), i);
    }
}

static void fill(const tt_coll_call *call, int64_t *in, int64_t *out)
{
    const bool has_block =
        call->kind == TT_ALL_GATHER || call->kind == TT_GATHER;
    const tt_block mine =
        tt_block_of(call->count, call->group.n, call->group.me);
    for (int64_t i = 0; i < 2 * MOST + GUARD; i++)
        out[i] = -1;
    for (int64_t i = 0; i < call->count; i++)
        in[i] = value(call->group.me, has_block ? mine.first + i : i);
    for (int64_t i = 0; i < call->count && call->kind == TT_BROADCAST &&
                        call->group.me == call->root;
         i++)
        out[i] = value(call->root, i);
}

static tt_status check_call(tt_comm *comm, const tt_coll_def *def,
                            tt_coll_call call, bool is_in_place)
{
    int64_t memory[MOST], out[2 * MOST + GUARD], scratch[2 * MOST];
    int64_t *in = is_in_place ? out : memory;
    call.in = in;
    call.out = out;
    call.scratch = tt_coll_scratch_bytes(def, &call) > 0 ? scratch : NULL;
    fill(&call, in, out);
    TT_TRY(tt_coll_run(def, comm, &call));
    const int64_t n = result_count(&call);
    for (int64_t i = 0; i < n; i++)
        if (out[i] != result(&call, i))
            return tt_fail(TT_ERR_STATE, "%s %s, member %d of %d: [%lld]",
                           def->name, tt_coll_name(call.kind), call.group.me,
                           call.group.n, (long long)i);
    for (int64_t i = is_in_place ? call.count : n; i < 2 * MOST + GUARD; i++)
        if (out[i] != -1)
            return tt_fail(TT_ERR_STATE, "%s %s writes beyond", def->name,
                           tt_coll_name(call.kind));
    return TT_OK;
}

static tt_status check_kind(tt_comm *comm, const tt_coll_def *def,
                            tt_coll_call call)
{
    static const int64_t counts[] = {53, MOST};
    int64_t bound[RANKS + 1] = {0};
    for (int i = 0; i < 2; i++) {
        // Given blocks are as good as none; a barrier does not care for any.
        for (int32_t m = 0; m < call.group.n; m++) {
            const tt_block b = tt_block_of(counts[i], call.group.n, m);
            bound[m + 1] = b.first + b.n;
        }
        call.bound = i == 0 ? NULL : bound;
        for (call.root = 0; call.root < call.group.n;
             call.root += call.group.n - 1) {
            call.count = counts[i];
            TT_TRY(check_call(comm, def, call, false));
            if (call.kind == TT_ALL_REDUCE || call.kind == TT_REDUCE_TO)
                TT_TRY(check_call(comm, def, call, true));
        }
    }
    return TT_OK;
}

static tt_status check_all(tt_comm *comm)
{
    int32_t member[RANKS];
    int n = 0;
    const tt_coll_def *const *all = tt_coll_all(&n);
    const tt_coll_call call = {.group = group_of(comm->rank, member),
                               .fold = {TT_FOLD_SUM, TT_NUM_I64}};
    for (int i = 0; i < n; i++)
        for (int kind = 0; kind < TT_N_COLLS; kind++) {
            tt_coll_call one = call;
            one.kind = (tt_coll_kind)kind;
            one.tag = kind;
            TT_TRY(check_kind(comm, all[i], one));
        }
    return TT_OK;
}

static void *act(void *user)
{
    actor *a = user;
    a->status = check_all(a->comm);
    snprintf(a->message, sizeof a->message, "%s", tt_error_message());
    if (a->status != TT_OK)
        tt_shm_world_fail(a->world, a->comm->rank); // nobody waits for it
    return NULL;
}

static void act_all(actor *actors)
{
    pthread_t thread[RANKS];
    for (int32_t i = 0; i < RANKS; i++)
        CHECK(pthread_create(&thread[i], NULL, act, &actors[i]) == 0);
    for (int32_t i = 0; i < RANKS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    for (int32_t i = 0; i < RANKS; i++)
        CHECK_MSG(actors[i].status == TT_OK, "rank %d: %s", i,
                  actors[i].message);
}

// A collective runs in every step, so it allocates at its first call at the most.
TEST(collectives_of_two_groups_at_once_are_right_and_allocate_once)
{
    tt_shm_world *world = NULL;
    actor actors[RANKS] = {0};
    CHECK_OK(tt_shm_world_create(RANKS, 0, &world));
    for (int32_t i = 0; i < RANKS; i++) {
        actors[i].world = world;
        CHECK_OK(tt_shm_open(world, i, 20, &actors[i].comm));
    }
    act_all(actors);
    tt_alloc_fail_at(0);
    act_all(actors);
    CHECK_MSG(tt_alloc_count() == 0, "%lld allocations",
              (long long)tt_alloc_count());
    for (int32_t i = 0; i < RANKS; i++)
        tt_comm_close(actors[i].comm);
    tt_shm_world_destroy(world);
}

TEST(algorithms_are_found_by_their_names)
{
    int n = 0;
    const tt_coll_def *const *all = tt_coll_all(&n);
    CHECK(n > 4);
    for (int i = 0; i < n; i++)
        CHECK(tt_coll_find(all[i]->name) == all[i]);
    CHECK(tt_coll_find("none") == NULL);
}

TEST(blocks_that_do_not_make_the_whole_are_refused)
{
    static const int64_t bounds[][4] = {
        {0, 5, 3, 9}, {0, 10, 9, 9}, {1, 2, 3, 9}, {0, 2, 3, 8}, {0, 2, 3, 10}};
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        const tt_coll_call call = {.kind = TT_ALL_GATHER,
                                   .group = {.n = 3},
                                   .fold = {TT_FOLD_SUM, TT_NUM_F32},
                                   .count = 9,
                                   .bound = bounds[i]};
        CHECK(tt_coll_run(tt_coll_find("ring"), NULL, &call) == TT_ERR_ARG);
        CHECK(strstr(tt_error_message(), "do not make 9 elements") != NULL);
    }
}
