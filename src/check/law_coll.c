// law_coll - every collective algorithm is right, and its cost function too.
//
// For each algorithm and kind (all-reduce, broadcast, ...), on 1 to 9 ranks:
//
//   result   each element is what the definition says, and nothing else is written
//   cost     exactly the messages and bytes are sent that `cost` says: `tutti plan`
//            prints these
//   bits     a fold of floats has the same bits on all ranks and in every run; an
//            ordered algorithm has those of `naive`
//
// Counts are odd or empty, blocks are of any size, all number types occur. Algorithms
// that look at hosts are given several layouts of hosts. Scratch memory is followed by
// guard bytes.
//
// Ranks are threads over the rings of the shared-memory transport, or the ranks of a
// launcher over theirs. The hash of all float results (`bits`) is printed, so the two
// can be compared.

#include "base/alloc.h"
#include "base/rng.h"
#include "base/thread.h"
#include "check/law.h"
#include "check/rank_threads.h"
#include "comm/coll/coll.h"
#include "comm/transport/shm.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_RANKS = 9,
    MAX_COUNT = 30011,
    // More than a transport sends as one piece.
    LARGE_COUNT = 600011,
    N_BUFFERS = 4,
    WIDEST = 8,
    UNTOUCHED = 0x5a, // bytes of `out` before a call
    MOST_SCRATCH = 2, // times count: the most that an algorithm asks for
    GUARD = 4096,     // bytes after that, which nobody may write
};
static const double deadline = 20;

typedef struct rank {
    tt_law_report report;
    tt_comm *comm;
    int32_t n;                        // ranks that take part
    int64_t most;                     // elements
    char *in, *out, *again, *scratch; // room for `most` of the widest type
    bool is_shared; // in, out and scratch lie where peers can read them
    tt_status status;
} rank;

// ---- values --------------------------------------------------------------

// Values are whole numbers so small that every type sums them exactly. They repeat
// after PERIOD elements, so the expected fold is computed for one period only.
enum { PERIOD = 7 * 13 };
static int64_t value_of(int32_t from, int64_t i)
{
    return (from * INT64_C(5) + i * 3 + i / 7) % 13;
}

static void store(tt_num type, void *at, int64_t i, int64_t v)
{
    static const uint16_t bf16[] = {0,      0x3f80, 0x4000, 0x4040, 0x4080,
                                    0x40a0, 0x40c0, 0x40e0, 0x4100, 0x4110,
                                    0x4120, 0x4130, 0x4140};
    static const uint16_t f16[] = {0,      0x3c00, 0x4000, 0x4200, 0x4400,
                                   0x4500, 0x4600, 0x4700, 0x4800, 0x4880,
                                   0x4900, 0x4980, 0x4a00};
    switch (type) {
    case TT_NUM_F64:
        ((double *)at)[i] = (double)v;
        break;
    case TT_NUM_F32:
        ((float *)at)[i] = (float)v;
        break;
    case TT_NUM_BF16:
        ((uint16_t *)at)[i] = bf16[v];
        break;
    case TT_NUM_F16:
        ((uint16_t *)at)[i] = f16[v];
        break;
    case TT_NUM_I64:
        ((int64_t *)at)[i] = v;
        break;
    case TT_NUM_I32:
        ((int32_t *)at)[i] = (int32_t)v;
        break;
    default:
        ((uint8_t *)at)[i] = (uint8_t)v;
        break;
    }
}

// The fold of element i over all members, by the loops of tt_fold_into, which have
// tests of their own.
static void expect_fold(const tt_coll_call *call, int64_t i, void *at)
{
    char other[WIDEST];
    for (int32_t r = 0; r < call->group.n; r++) {
        store(call->fold.type, r == 0 ? at : other, 0, value_of(r, i));
        if (r > 0)
            tt_fold_into(call->fold, at, other, tt_coll_bytes(call, 1));
    }
}

static void fill(const tt_coll_call *call, void *to, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        store(call->fold.type, to, i, value_of(call->group.me, first + i));
}

// ---- one call ------------------------------------------------------------

static bool has_whole_in(tt_coll_kind kind)
{
    return kind == TT_ALL_REDUCE || kind == TT_REDUCE_TO ||
           kind == TT_REDUCE_SCATTER || kind == TT_SCATTER ||
           kind == TT_ALL_TO_ALL;
}

static void fill_in(const tt_coll_call *call, rank *r)
{
    const tt_block mine = tt_coll_block(call, call->group.me);
    const int64_t blocks =
        call->kind == TT_ALL_TO_ALL ? mine.n * call->group.n : 0;
    const int64_t n = blocks > call->count ? blocks : call->count;
    memset(r->out, UNTOUCHED, (size_t)n * WIDEST);
    if (call->kind == TT_BROADCAST && call->group.me == call->root)
        fill(call, r->out, 0, call->count);
    else if (has_whole_in(call->kind))
        fill(call, r->in, 0, call->count);
    else
        fill(call, (void *)(uintptr_t)call->in, mine.first, mine.n);
}

// Element i of this member's result; false: the result has no element i. `fold` holds
// the folds of the first PERIOD elements.
static bool expect(const tt_coll_call *call, const char *fold, int64_t i,
                   void *at)
{
    const int64_t bytes = tt_coll_bytes(call, 1);
    const tt_group *g = &call->group;
    const tt_block mine = tt_coll_block(call, g->me);
    const bool is_root = g->me == call->root;
    int32_t from = 0;
    switch (call->kind) {
    case TT_ALL_REDUCE:
        memcpy(at, fold + i % PERIOD * bytes, (size_t)bytes);
        return i < call->count;
    case TT_REDUCE_TO:
        memcpy(at, fold + i % PERIOD * bytes, (size_t)bytes);
        return is_root && i < call->count;
    case TT_REDUCE_SCATTER:
        memcpy(at, fold + (mine.first + i) % PERIOD * bytes, (size_t)bytes);
        return i < mine.n;
    case TT_BROADCAST:
        store(call->fold.type, at, 0, value_of(call->root, i));
        return i < call->count;
    case TT_ALL_GATHER:
    case TT_GATHER:
        for (; from < g->n - 1; from++) {
            const tt_block b = tt_coll_block(call, from);
            if (i < b.first + b.n)
                break;
        }
        store(call->fold.type, at, 0, value_of(from, i));
        return (is_root || call->kind == TT_ALL_GATHER) && i < call->count;
    case TT_SCATTER:
        store(call->fold.type, at, 0, value_of(call->root, mine.first + i));
        return i < mine.n;
    case TT_ALL_TO_ALL:
        if (mine.n > 0)
            store(call->fold.type, at, 0,
                  value_of((int32_t)(i / mine.n), mine.first + i % mine.n));
        return i < mine.n * g->n;
    default:
        return false;
    }
}

static bool is_untouched(const char *at, int64_t n)
{
    return n <= 0 ||
           (at[0] == UNTOUCHED && memcmp(at, at + 1, (size_t)(n - 1)) == 0);
}

// The first element that is not the result's, or that was written although it is no
// part of the result; -1: none.
static int64_t first_wrong(const tt_coll_call *call, const rank *r)
{
    const int64_t bytes = tt_coll_bytes(call, 1);
    char want[WIDEST], fold[PERIOD * WIDEST];
    for (int64_t i = 0; i < PERIOD; i++)
        expect_fold(call, i, fold + i * bytes);
    int64_t i = 0;
    for (; expect(call, fold, i, want); i++)
        if (memcmp(tt_coll_to(call, i), want, (size_t)bytes) != 0)
            return i;
    const int64_t rest = (call->count - i) * bytes;
    return is_untouched(r->out + i * bytes, rest) ? -1 : i;
}

static void describe(const tt_coll_def *def, const tt_coll_call *call,
                     char *text, size_t bytes)
{
    snprintf(text, bytes, "coll %s %s of %lld %s on %d ranks, rank %d",
             def->name, tt_coll_name(call->kind), (long long)call->count,
             tt_num_name(call->fold.type), call->group.n, call->group.me);
}

static tt_status check_call(rank *r, const tt_coll_def *def,
                            const tt_coll_call *call)
{
    char what[160];
    const tt_comm_stats before = r->comm->stats;
    describe(def, call, what, sizeof what);
    fill_in(call, r);
    char *beyond = r->scratch + tt_coll_scratch_bytes(def, call);
    memset(beyond, UNTOUCHED, GUARD);
    TT_TRY(tt_coll_run(def, r->comm, call));
    const int64_t wrong = first_wrong(call, r);
    tt_law_report_check(&r->report, wrong < 0, "%s: element %lld is wrong",
                        what, (long long)wrong);
    tt_law_report_check(&r->report, is_untouched(beyond, GUARD),
                        "%s: writes past its scratch memory", what);
    if (def->is_native)
        return TT_OK;
    const tt_coll_cost cost = def->way[call->kind].cost(call);
    const tt_comm_stats *after = &r->comm->stats;
    const int64_t messages = after->sent_messages - before.sent_messages;
    const int64_t bytes = after->sent_bytes - before.sent_bytes;
    tt_law_report_check(&r->report,
                        messages == cost.messages && bytes == cost.bytes,
                        "%s: sent %lld messages, %lld bytes, not %lld, %lld",
                        what, (long long)messages, (long long)bytes,
                        (long long)cost.messages, (long long)cost.bytes);
    return TT_OK;
}

static void fill_random(const tt_coll_call *call, rank *r)
{
    const uint64_t key = tt_rng_key(7, "coll", (uint64_t)call->group.me);
    for (int64_t i = 0; i < call->count; i++)
        ((float *)r->in)[i] = (float)tt_rng_normal(key, (uint64_t)i);
}

// Adds the bits of a result to the report's hash. A transport's own algorithms
// (native) may fold in another order, so they do not count.
static void note_bits(rank *r, const tt_coll_def *def, const tt_coll_call *call,
                      int64_t n)
{
    const tt_group *g = &call->group;
    uint64_t h = tt_rng_key((uint64_t)(16 * g->n + g->me), def->name,
                            (uint64_t)call->kind);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = 0;
        memcpy(&bits, r->out + i * 4, sizeof bits);
        h = (h ^ bits) * UINT64_C(0x100000001b3);
    }
    if (!def->is_native)
        r->report.bits += h;
}

// Bits of a reduce-scatter's blocks, or of a reduce at the root, on random floats.
static tt_status check_fold_bits(rank *r, const tt_coll_def *def,
                                 tt_coll_call call)
{
    const bool is_block = call.kind == TT_REDUCE_SCATTER;
    call.count = 1009;
    call.fold = (tt_fold){TT_FOLD_SUM, TT_NUM_F32};
    call.scratch = r->scratch;
    call.root = call.group.n / 2;
    fill_random(&call, r);
    TT_TRY(tt_coll_run(def, r->comm, &call));
    if (is_block || call.group.me == call.root)
        note_bits(r, def, &call,
                  is_block ? tt_coll_block(&call, call.group.me).n
                           : call.count);
    return TT_OK;
}

// Random floats through an all-reduce: the same bits again, the same as on rank 0, and
// for an ordered algorithm the same as `naive`.
static tt_status check_bits(rank *r, const tt_coll_def *def, tt_coll_call call)
{
    char what[160];
    const size_t bytes = (size_t)tt_coll_bytes(&call, call.count);
    describe(def, &call, what, sizeof what);
    fill_random(&call, r);
    TT_TRY(tt_coll_run(def, r->comm, &call));
    note_bits(r, def, &call, call.count);
    memcpy(r->again, r->out, bytes);
    TT_TRY(tt_coll_run(def, r->comm, &call));
    tt_law_report_check(&r->report, memcmp(r->again, r->out, bytes) == 0,
                        "%s: other bits when it runs again", what);
    tt_coll_call spread = call;
    spread.kind = TT_BROADCAST;
    spread.root = 0;
    spread.out = r->out;
    TT_TRY(tt_coll_run(tt_coll_find("naive"), r->comm, &spread));
    tt_law_report_check(&r->report, memcmp(r->again, r->out, bytes) == 0,
                        "%s: other bits than rank 0", what);
    TT_TRY(tt_coll_run(tt_coll_find("naive"), r->comm, &call));
    tt_law_report_check(
        &r->report, !def->is_ordered || memcmp(r->again, r->out, bytes) == 0,
        "%s: other bits than naive, though it is ordered", what);
    return TT_OK;
}

// ---- one rank ------------------------------------------------------------

static const int64_t counts[] = {0, 1, 7, 1009, MAX_COUNT, LARGE_COUNT};
enum { N_COUNTS = sizeof(counts) / sizeof(counts[0]) };

// Block borders at random, the same on every rank. Every third cut repeats the one
// before it, so that some blocks are empty.
static void cut(int64_t count, int32_t n, uint64_t seed, int64_t *bound)
{
    const uint64_t key = tt_rng_key(seed, "cut", (uint64_t)count);
    bound[0] = 0;
    for (int32_t i = 1; i < n; i++) {
        int64_t at =
            (int64_t)(tt_rng_uniform(key, (uint64_t)i) * (double)(count + 1));
        if (i % 3 == 2)
            at = bound[i - 1];
        int32_t k = i;
        for (; k > 1 && bound[k - 1] > at; k--)
            bound[k] = bound[k - 1];
        bound[k] = at;
    }
    bound[n] = count;
}

static bool has_blocks(tt_coll_kind kind)
{
    return kind == TT_REDUCE_SCATTER || kind == TT_ALL_GATHER ||
           kind == TT_GATHER || kind == TT_SCATTER || kind == TT_ALL_TO_ALL;
}

static tt_status check_uneven(rank *r, const tt_coll_def *def,
                              tt_coll_call call)
{
    int64_t bound[MAX_RANKS + 1];
    call.bound = bound;
    call.fold = (tt_fold){TT_FOLD_SUM, TT_NUM_F32};
    for (int i = 0; i < N_COUNTS; i++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            // One member may get everything from each.
            const int64_t most = call.kind == TT_ALL_TO_ALL
                                     ? MAX_COUNT / call.group.n
                                     : MAX_COUNT;
            if (counts[i] > most)
                continue;
            call.count = counts[i];
            call.root = (int32_t)((i + (int)seed) % call.group.n);
            call.scratch =
                tt_coll_scratch_bytes(def, &call) > 0 ? r->scratch : NULL;
            call.tag = 1000 + 10 * i + (int32_t)seed;
            cut(call.count, call.group.n, seed, bound);
            TT_TRY(check_call(r, def, &call));
        }
    return TT_OK;
}

// A rank's own block lies where it belongs: an all-gather's in the result, a
// reduce-scatter's in the input. Algorithms must not copy it over itself wrongly.
static tt_status check_in_place(rank *r, const tt_coll_def *def,
                                tt_coll_call call)
{
    int64_t bound[MAX_RANKS + 1];
    call.fold = (tt_fold){TT_FOLD_SUM, TT_NUM_F32};
    call.count = 1009;
    call.bound = bound;
    call.scratch = tt_coll_scratch_bytes(def, &call) > 0 ? r->scratch : NULL;
    cut(call.count, call.group.n, 5, bound);
    const int64_t first = tt_coll_block(&call, call.group.me).first;
    if (call.kind == TT_ALL_GATHER)
        call.in = tt_coll_to(&call, first);
    else
        call.out = tt_coll_at(&call, r->in, first);
    return check_call(r, def, &call);
}

static tt_status check_kind(rank *r, const tt_coll_def *def, tt_coll_call call)
{
    if (has_blocks(call.kind))
        TT_TRY(check_uneven(r, def, call));
    if (call.kind == TT_ALL_GATHER ||
        (call.kind == TT_REDUCE_SCATTER && def->is_native &&
         r->comm->def->scatters_in_place))
        TT_TRY(check_in_place(r, def, call));
    for (int i = 0; i < N_COUNTS; i++)
        for (int t = 0; t < TT_N_NUMS; t++) {
            // All types at one size, one type at the other sizes.
            if ((t != TT_NUM_F32 && counts[i] != 1009) || counts[i] > r->most)
                continue;
            call.count = counts[i];
            call.fold.type = (tt_num)t;
            call.fold.op = t == TT_NUM_I32 ? TT_FOLD_MAX : TT_FOLD_SUM;
            call.root = (int32_t)((i + t) % call.group.n);
            call.scratch =
                tt_coll_scratch_bytes(def, &call) > 0 ? r->scratch : NULL;
            call.tag = 100 * (int32_t)call.kind + 10 * i + t;
            TT_TRY(check_call(r, def, &call));
        }
    if (call.kind == TT_REDUCE_TO || call.kind == TT_REDUCE_SCATTER)
        return check_fold_bits(r, def, call);
    if (call.kind != TT_ALL_REDUCE)
        return TT_OK;
    call.count = 1009;
    call.fold = (tt_fold){TT_FOLD_SUM, TT_NUM_F32};
    call.scratch = r->scratch;
    return check_bits(r, def, call);
}

// Hosts of the members: neighbours together, alternating, and irregular.
static const int32_t hosts[][MAX_RANKS] = {
    {0, 0, 1, 1, 2, 2, 3, 3, 4},
    {0, 1, 0, 1, 0, 1, 0, 1, 0},
    {5, 2, 2, 5, 2, 7, 5, 2, 2},
};
enum { N_HOSTS = sizeof(hosts) / sizeof(hosts[0]) };

static tt_status check_way(rank *r, const tt_coll_def *def, tt_coll_kind kind)
{
    tt_coll_call call = {.kind = kind,
                         .group = {.n = r->n, .me = r->comm->rank},
                         .in = r->in,
                         .out = r->out};
    TT_TRY(check_kind(r, def, call));
    for (int i = 0; i < N_HOSTS && def->sees_hosts; i++) {
        call.group.host = hosts[i];
        TT_TRY(check_kind(r, def, call));
    }
    return TT_OK;
}

static tt_status check_rank(rank *r)
{
    int n = 0;
    const tt_coll_def *const *all = tt_coll_all(&n);
    for (int i = 0; i < n; i++)
        for (int kind = 0; kind < TT_N_COLLS; kind++)
            if (all[i]->way[kind].run != NULL &&
                tt_law_report_wants(&r->report, all[i]->name))
                TT_TRY(check_way(r, all[i], (tt_coll_kind)kind));
    return TT_OK;
}

static void *rank_main(void *user)
{
    rank *r = user;
    r->status = check_rank(r);
    if (r->status != TT_OK)
        tt_law_report_check(&r->report, false, "coll: %s", tt_error_message());
    return NULL;
}

// ---- the world -----------------------------------------------------------

static tt_status allocate(rank *r)
{
    const int64_t n = (r->most + MAX_RANKS) * WIDEST;
    char **buffer[N_BUFFERS] = {&r->in, &r->out, &r->again, &r->scratch};
    for (int k = 0; k < N_BUFFERS; k++) {
        const int64_t bytes =
            buffer[k] == &r->scratch ? MOST_SCRATCH * n + GUARD : n;
        *buffer[k] = r->is_shared ? r->comm->def->alloc(r->comm, bytes)
                                  : tt_alloc(bytes);
        if (*buffer[k] == NULL)
            return tt_fail(TT_ERR_NOMEM, "coll: no memory for rank %d",
                           r->comm->rank);
    }
    return TT_OK;
}

static tt_status open_rank(tt_shm_world *world, int32_t n, int32_t i,
                           const char *only, rank *r)
{
    *r = (rank){.report.only = only, .n = n, .most = MAX_COUNT};
    TT_TRY(tt_shm_open(world, i, deadline, &r->comm));
    // half of the ranks, so both ways of sending occur
    r->is_shared = i % 2 == 0;
    return allocate(r);
}

static void close_rank(tt_law_report *to, rank *r)
{
    char *const buffer[N_BUFFERS] = {r->in, r->out, r->again, r->scratch};
    for (int k = 0; k < N_BUFFERS && !r->is_shared; k++)
        tt_free(buffer[k]);
    if (r->comm != to->comm)
        tt_comm_close(r->comm);
    to->n_checks += r->report.n_checks;
    to->n_failed += r->report.n_failed;
    to->bits += r->report.bits;
    tt_str_add(&to->failures, tt_str_text(&r->report.failures));
    tt_law_report_fini(&r->report);
}

static tt_status run_ranks(tt_law_report *r, tt_shm_world *world, int32_t n)
{
    rank ranks[MAX_RANKS] = {0};
    pthread_t thread[MAX_RANKS];
    tt_status status = TT_OK;
    for (int32_t i = 0; i < n && status == TT_OK; i++)
        status = open_rank(world, n, i, r->only, &ranks[i]);
    int32_t started = 0;
    while (status == TT_OK && started < n) {
        status = tt_thread_start(&thread[started], rank_main, &ranks[started],
                                 "a rank of the law coll");
        started += status == TT_OK;
    }
    for (int32_t i = started; i < n; i++)
        tt_shm_world_fail(world, i);
    for (int32_t i = 0; i < started; i++)
        (void)pthread_join(thread[i], NULL);
    for (int32_t i = 0; i < n; i++)
        close_rank(r, &ranks[i]);
    return status;
}

// The first n of a launcher's ranks, for every n. The others wait at the end, in
// tt_rank_threads_add_up.
static tt_status run_together(tt_law_report *r)
{
    const int32_t size = r->comm->size;
    rank me = {.report.only = r->only, .comm = r->comm, .most = LARGE_COUNT};
    tt_status status = allocate(&me);
    for (int32_t n = 1; n <= size && n <= MAX_RANKS && status == TT_OK; n++) {
        me.n = n;
        me.most = n == size ? LARGE_COUNT : MAX_COUNT;
        if (r->comm->rank < n)
            status = check_rank(&me);
    }
    close_rank(r, &me);
    TT_TRY(status);
    return tt_rank_threads_add_up(r);
}

static tt_status run(tt_law_report *r)
{
    const int32_t most = r->most_ranks > 0 && r->most_ranks < MAX_RANKS
                             ? r->most_ranks
                             : MAX_RANKS;
    if (r->comm != NULL)
        return run_together(r);
    // Stops at the smallest number of ranks that fails. Ranks that wait for a message
    // that never comes take long, and more of them tell nothing new.
    for (int32_t n = 1; n <= most && r->n_failed == 0; n++) {
        tt_shm_world *world = NULL;
        TT_TRY(tt_shm_world_create(n, 2 << 20, &world));
        const tt_status status = run_ranks(r, world, n);
        tt_shm_world_destroy(world);
        TT_TRY(status);
    }
    return TT_OK;
}

const tt_law_def tt_law_coll = {
    .name = "coll",
    .doc = "Every collective is right and sends what its cost says.",
    .takes_ranks = true,
    .run = run,
};
