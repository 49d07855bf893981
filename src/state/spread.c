// spread - see the header.
//
// The problem. With ZeRO or tensor parallelism no rank holds a whole tensor. If ranks
// gather tensors when a checkpoint is due, all of them wait while all states travel to
// rank 0: up to half a step on two ranks of one machine, more on a network.
//
// The idea. Only the copy must happen between two steps, since the next update
// overwrites the states. So each rank copies its own parts, at the speed of memory,
// into a block that stays as it is until the next checkpoint. Everything else is the
// writer's: it puts each tensor together when it is about to write it.
//
//   rank 0   | head | a b - d |  <--+      a whole tensor (b) is in rank 0's block
//   rank 1   | head | a   c d |  <--+--    only; of parts (a, d) each rank has its own
//   rank 2   | head | a   c d |  <--+      the writer reads them all
//
// There are two ways for the bytes of other ranks to reach the writer:
//
//   shared    the transport has memory that all ranks see at the same address. Blocks
//             lie there, and the writer reads them in place: no message at all. A block
//             outlives its rank, so a checkpoint is finished even if that rank dies
//   messages  (MPI) rank 0 has room for all blocks. After each step the wire gets one
//             call: a piece of one rank's block goes to rank 0 during the next step.
//             Every rank knows all sizes, so nothing is negotiated
//
// Who may write a block, and when: its rank, from tt_spread_begin until it sets
// head->arrived to the number of the snapshot. The writer reads after that. The next
// begin comes when rank 0 has told all ranks that its writer is idle.
//
// A device's copies are still on their way when begin returns (backend/drain.h), so
// there a thread waits for them before it sets `arrived`.

#include "state/spread.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "state/parts.h"

#include <stdatomic.h>
#include <time.h>

enum { ALIGN = 64 };

static const double deadline = 600; // seconds for copies of a device to arrive

typedef struct head { // of a block: the first ALIGN bytes
    _Atomic int64_t arrived;
} head;

struct tt_spread {
    tt_exec *exec;
    const tt_graph *graph;
    const tt_tensors *all;
    const tt_peers *peers;
    tt_snapshot room; // this rank's block
    int64_t number;   // of the snapshot
    int64_t *at;      // [rank][tensor], and the end: places in blocks
    char **block;     // of each rank; NULL: it is not here
    char *joined;     // the writer's tensor
    pthread_t thread; // waits for a device
    // Messages: what is done of rank `from`, and left of all.
    char *landing; // blocks of the others
    int64_t *bound;
    int64_t done, piece, on_way, left;
    double per_byte; // seconds; of the fastest piece
    int32_t from;
    bool is_shared, has_thread;
    atomic_bool is_given_up, is_all_here;
};

// ---- sizes ---------------------------------------------------------------

static int64_t padded(int64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

// Bytes of a tensor that a rank keeps. Of a tensor that several ranks hold, the first
// copy is saved: rank 0's, if it has one.
static int64_t share(const tt_graph *g, const tt_tensor *t, int32_t rank)
{
    if (!t->is_split)
        return rank == 0 ? t->bytes : 0;
    if (tt__rank_part_group(g, t->val, rank) != tt__rank_part_first(g, t->val))
        return 0;
    return tt__rank_part_of(g, t->val, rank).count * tt_dtype_bytes(t->dtype);
}

static int64_t block_bytes(const tt_graph *g, const tt_tensors *all,
                           int32_t rank)
{
    int64_t bytes = ALIGN;
    for (int64_t i = 0; i < all->n; i++)
        bytes += padded(share(g, &all->v[i], rank));
    return bytes;
}

static int64_t largest_split(const tt_tensors *all)
{
    int64_t largest = 0;
    for (int64_t i = 0; i < all->n; i++)
        if (all->v[i].is_split && all->v[i].bytes > largest)
            largest = all->v[i].bytes;
    return padded(largest) + ALIGN;
}

int64_t tt_spread_bytes(const tt_graph *graph, const tt_tensors *all,
                        int32_t rank, bool is_shared)
{
    int64_t bytes = block_bytes(graph, all, rank);
    if (rank > 0)
        return bytes;
    for (int32_t r = 1; r < all->v[0].peers->size && !is_shared; r++)
        bytes += block_bytes(graph, all, r);
    return bytes + largest_split(all);
}

static int64_t *places(const tt_spread *s, int32_t rank)
{
    return s->at + rank * (s->all->n + 1);
}

static int64_t block_end(const tt_spread *s, int32_t rank)
{
    return places(s, rank)[s->all->n];
}

static void find_places(tt_spread *s)
{
    for (int32_t r = 0; r < s->peers->size; r++) {
        int64_t *at = places(s, r);
        at[0] = ALIGN;
        for (int64_t i = 0; i < s->all->n; i++)
            at[i + 1] = at[i] + padded(share(s->graph, &s->all->v[i], r));
    }
}

// ---- opening -------------------------------------------------------------

static tt_spread *make(tt_exec *exec, const tt_tensors *all)
{
    tt_spread *s = tt_alloc(sizeof *s);
    if (s == NULL)
        return NULL;
    s->exec = exec;
    s->graph = tt_exec_plan(exec)->graph;
    s->all = all;
    s->peers = all->v[0].peers;
    const int64_t n = s->peers->size;
    s->at = tt_alloc(n * (all->n + 1) * (int64_t)sizeof *s->at);
    s->block = tt_alloc(n * (int64_t)sizeof *s->block);
    s->bound = tt_alloc((n + 1) * (int64_t)sizeof *s->bound);
    if (tt_peers_is_first(s->peers))
        s->joined = tt_alloc_aligned(largest_split(all), ALIGN);
    if (s->at == NULL || s->block == NULL || s->bound == NULL ||
        (tt_peers_is_first(s->peers) && s->joined == NULL)) {
        tt_spread_close(s);
        return NULL;
    }
    find_places(s);
    return s;
}

// Every rank says where its block is. *has_all_out: none has said NULL.
static tt_status tell_blocks(const tt_peers *peers, char *own, char **block,
                             bool *has_all_out)
{
    char *mine = own;
    TT_TRY(tt_peers_collect(peers, "snapshot", &mine, sizeof mine, block));
    *has_all_out = true;
    for (int32_t r = 0; r < peers->size; r++)
        *has_all_out = *has_all_out && block[r] != NULL;
    return TT_OK;
}

static bool fits(const tt_spread *s, int64_t most)
{
    return tt_spread_bytes(s->graph, s->all, s->peers->rank, s->is_shared) <=
           most;
}

// A block of this rank; NULL: there is no memory for it, or it may not be so large.
static char *make_block(tt_spread *s, bool is_shared, int64_t most)
{
    s->is_shared = is_shared;
    s->room.lender = is_shared ? s->peers->wire : NULL;
    if (!fits(s, most) ||
        tt__snapshot_room(&s->room, block_end(s, s->peers->rank)) != TT_OK)
        return NULL;
    return s->room.memory;
}

// Rank 0's room for the others' blocks.
static bool make_landing(tt_spread *s)
{
    int64_t bytes = 0;
    if (!tt_peers_is_first(s->peers))
        return true;
    for (int32_t r = 1; r < s->peers->size; r++)
        bytes += block_end(s, r);
    s->landing = tt_alloc_aligned(bytes, ALIGN);
    bytes = 0;
    for (int32_t r = 1; r < s->peers->size && s->landing != NULL; r++) {
        s->block[r] = s->landing + bytes;
        bytes += block_end(s, r);
    }
    return s->landing != NULL;
}

// Blocks that all see, or else blocks that are carried. All ranks take the same way:
// each of them learns what the others could get.
static tt_status make_blocks(tt_spread *s, const tt_peers *peers, char **block,
                             int64_t most, bool *is_made_out)
{
    char *own = s != NULL ? make_block(s, true, most) : NULL;
    TT_TRY(tell_blocks(peers, own, block, is_made_out));
    if (*is_made_out) {
        for (int32_t r = 0; r < peers->size; r++)
            s->block[r] = block[r];
        return TT_OK;
    }
    if (s != NULL)
        tt_snapshot_free(&s->room);
    own = s != NULL ? make_block(s, false, most) : NULL;
    if (own != NULL && !make_landing(s))
        own = NULL;
    if (own != NULL)
        s->block[peers->rank] = own;
    return tell_blocks(peers, own, block, is_made_out);
}

tt_status tt_spread_open(tt_exec *exec, const tt_tensors *all, int64_t most,
                         tt_spread **spread_out)
{
    const tt_peers *peers = all->v[0].peers;
    bool is_made = false;
    tt_spread *s = make(exec, all);
    char **block = tt_alloc(peers->size * (int64_t)sizeof *block);
    tt_status status =
        block != NULL
            ? make_blocks(s, peers, block, most, &is_made)
            : tt_fail(TT_ERR_NOMEM, "no memory to save parts of tensors");
    tt_free(block);
    if (status != TT_OK || !is_made) {
        tt_spread_close(s);
        s = NULL;
    } else {
        tt__snapshot_warm(exec, &s->room);
    }
    *spread_out = s;
    return status;
}

static void join_thread(tt_spread *s)
{
    if (s->has_thread)
        pthread_join(s->thread, NULL);
    s->has_thread = false;
}

void tt_spread_close(tt_spread *s)
{
    if (s == NULL)
        return;
    // After a failure a piece may still be on its way into memory that goes here.
    if (s->on_way > 0)
        (void)tt_comm_wire_settle(s->peers->wire, NULL);
    join_thread(s);
    tt_snapshot_free(&s->room);
    tt_free_aligned(s->landing);
    tt_free_aligned(s->joined);
    tt_free(s->bound);
    tt_free(s->block);
    tt_free(s->at);
    tt_free(s);
}

// ---- copying -------------------------------------------------------------

static void *arrive(void *user)
{
    tt_spread *s = user;
    head *own = s->room.memory;
    if (tt_exec_drain_wait(s->exec) == TT_OK)
        atomic_store(&own->arrived, s->number);
    return NULL;
}

// Says that this rank's copies are there, now or when a device has made them.
static void tell_arrival(tt_spread *s)
{
    const bool is_device = tt_exec_backend(s->exec)->def->drain != NULL;
    s->has_thread = is_device && tt_thread_start(&s->thread, arrive, s,
                                                 "a snapshot") == TT_OK;
    if (!s->has_thread)
        (void)arrive(s);
}

static tt_status copy_own(tt_spread *s)
{
    const int32_t rank = s->peers->rank;
    const int64_t *at = places(s, rank);
    TT_TRY(tt_exec_drain_begin(s->exec));
    for (int64_t i = 0; i < s->all->n; i++)
        if (at[i + 1] > at[i])
            TT_TRY(tt_exec_drain(s->exec, s->all->v[i].val,
                                 (char *)s->room.memory + at[i]));
    return tt_exec_drain_end(s->exec);
}

static int64_t to_carry(const tt_spread *s)
{
    int64_t bytes = 0;
    for (int32_t r = 1; r < s->peers->size && !s->is_shared; r++)
        bytes += block_end(s, r);
    return bytes;
}

int64_t tt_spread_to_carry(const tt_spread *spread)
{
    return to_carry(spread);
}

double tt_spread_per_byte(const tt_spread *spread)
{
    return spread->per_byte;
}

// ---- messages ------------------------------------------------------------

// A piece has travelled.
static tt_status land(tt_spread *s)
{
    double seconds = 0;
    TT_TRY(tt_comm_wire_settle(s->peers->wire, &seconds));
    // A piece may have waited for a rank that came late, so the fastest one counts.
    if (s->on_way > 0 && seconds > 0 &&
        (s->per_byte == 0 || seconds / (double)s->on_way < s->per_byte))
        s->per_byte = seconds / (double)s->on_way;
    s->left -= s->on_way;
    s->done += s->on_way;
    s->on_way = 0;
    if (s->left == 0)
        atomic_store(&s->is_all_here, true);
    return TT_OK;
}

// Posts the next piece: the next bytes of one rank's block. The rank that sends waits
// for its device first, which has long been ready after a step.
static tt_status post(tt_spread *s, int64_t most)
{
    const tt_peers *peers = s->peers;
    while (s->done == block_end(s, s->from)) {
        s->from++;
        s->done = 0;
    }
    const int64_t rest = block_end(s, s->from) - s->done;
    const int64_t bytes = most < rest ? most : rest;
    if (peers->rank == s->from)
        TT_TRY(tt_exec_drain_wait(s->exec));
    for (int32_t r = 0; r <= peers->size; r++)
        s->bound[r] = r > s->from ? bytes : 0;
    const tt_coll_call call = {
        .kind = TT_GATHER,
        .fold = {TT_FOLD_COPY, TT_NUM_U8},
        .count = bytes,
        .bound = s->bound,
        .in = (char *)s->room.memory +
              (peers->rank == s->from ? s->done : (int64_t)0),
        .out = tt_peers_is_first(peers) ? s->block[s->from] + s->done : NULL};
    TT_TRY(tt_comm_wire_post(peers->wire, "snapshot", &call));
    s->on_way = bytes;
    return TT_OK;
}

tt_status tt_spread_carry(tt_spread *s)
{
    if (s->left == 0)
        return TT_OK;
    TT_TRY(land(s));
    return s->left > 0 ? post(s, s->piece) : TT_OK;
}

tt_status tt_spread_finish(tt_spread *s)
{
    while (s->left > 0) {
        TT_TRY(land(s));
        if (s->left > 0)
            TT_TRY(post(s, INT64_MAX));
    }
    return TT_OK;
}

tt_status tt_spread_begin(tt_spread *s, int64_t piece)
{
    join_thread(s);
    TT_TRY(tt__snapshot_room(&s->room, block_end(s, s->peers->rank)));
    s->number++;
    s->from = 1;
    s->done = 0;
    s->piece = piece;
    s->left = to_carry(s);
    atomic_store(&s->is_all_here, s->left == 0);
    TT_TRY(copy_own(s));
    tell_arrival(s);
    // The first piece travels during the next step, unless a device has still to copy
    // it.
    return tt_exec_backend(s->exec)->def->drain == NULL ? tt_spread_carry(s)
                                                        : TT_OK;
}

// ---- the writer ----------------------------------------------------------

static bool is_here(const tt_spread *s, int32_t rank)
{
    const head *h = (const head *)s->block[rank];
    return s->is_shared ? atomic_load(&h->arrived) == s->number
                        : atomic_load(&s->is_all_here);
}

static tt_status wait_for(const tt_spread *s, int32_t rank)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    const double start = tt_clock_seconds();
    while (!is_here(s, rank)) {
        if (atomic_load(&s->is_given_up))
            return tt_fail(TT_ERR_PEER,
                           "rank %d ended before its part was copied", rank);
        if (s->is_shared && tt_clock_seconds() - start > deadline)
            return tt_fail(TT_ERR_TIMEOUT,
                           "rank %d has not copied its part in %.0f seconds",
                           rank, deadline);
        (void)nanosleep(&pause, NULL);
    }
    return TT_OK;
}

tt_status tt_spread_wait(tt_spread *s)
{
    TT_TRY(tt_exec_drain_wait(s->exec));
    for (int32_t r = 1; r < s->peers->size; r++)
        TT_TRY(wait_for(s, r));
    return TT_OK;
}

tt_status tt_spread_fetch(tt_spread *s, const char *name, const void **data_out)
{
    const tt_tensor *t = tt_tensors_find(s->all, name);
    if (t == NULL)
        return tt_fail(TT_ERR_STATE, "%s is no state of this job", name);
    const int64_t i = t - s->all->v;
    *data_out = s->block[0] + places(s, 0)[i];
    if (!t->is_split)
        return TT_OK;
    for (int32_t r = 0; r < s->peers->size; r++) {
        const int64_t *at = places(s, r);
        const tt__rank_part p = tt__rank_part_of(s->graph, t->val, r);
        if (at[i + 1] > at[i])
            tt__rank_part_spread(&p, tt_dtype_bytes(t->dtype),
                                 s->block[r] + at[i], s->joined);
    }
    *data_out = s->joined;
    return TT_OK;
}

void tt_spread_give_up(tt_spread *s)
{
    atomic_store(&s->is_given_up, true);
}
