// shm_coll - collectives in the shared memory itself: no messages, only barriers
// ("meetings").
//
// The problem. An all-reduce by messages copies each element several times: into a
// ring, out of it, into the sum, and back. On one host, memory bandwidth is what
// limits it.
//
// The idea. All members see all inputs. So each member folds its block directly from
// where all inputs lie, and writes the result to where all results lie.
//
//   inputs     rank 0 [ a0 | b0 | c0 ]     meeting: all inputs are complete
//              rank 1 [ a1 | b1 | c1 ]
//              rank 2 [ a2 | b2 | c2 ]
//   rank 0 folds a, rank 1 folds b, rank 2 folds c, each into all three results
//   results    rank 0 [ A  | B  | C  ]     meeting: all results are complete
//
//   in shared memory   as above: two meetings, each element moves once
//   ordinary memory    the same in pieces through a stage per rank: one meeting per
//                      piece
//
// The order of each fold is that of coll/pairs.h, whoever does it, so bits are those of
// the other ordered algorithms. Stages are written by stores that bypass the cache,
// since a line that another core has read is slow to write (stream.h).
//
// Bytes that members read from each other count as sent.

#include "comm/fold_pairs.h"
#include "comm/stream.h"
#include "comm/transport/shm_world.h"

#include <omp.h>
#include <string.h>

enum { PIECE = TT_FOLD_PIECE }; // folded at once: stays in the nearest cache

typedef struct job {
    tt__shm *s;
    const tt_coll_call *call;
    int64_t part; // bytes of one block's share of a stage
    bool is_staged;
} job;

// ---- meeting -------------------------------------------------------------

static bool is_here(const tt__shm *s, const tt_group *g, int32_t i)
{
    const int32_t r = tt_coll_rank(g, i);
    return i == g->me ||
           atomic_load(&tt__ring_of(s->world, r, s->base.rank)->step) >=
               s->peer[r].awaited;
}

bool tt__shm_has_met(const tt__shm *s, const tt_group *group)
{
    for (int32_t i = 0; i < group->n; i++)
        if (!is_here(s, group, i))
            return false;
    return true;
}

// A meeting is a barrier of a group. Each pair of ranks counts its own meetings
// (`step` in the ring between them), so that different groups can meet without knowing
// of each other.
static tt_status wait_for(tt__shm *s, const tt_group *g, int32_t i,
                          tt_rest *rest)
{
    const int32_t late = tt_coll_rank(g, i);
    while (!is_here(s, g, i)) {
        for (int32_t k = 0; k < g->n; k++) {
            const int32_t rank = tt_coll_rank(g, k);
            if (k != g->me)
                TT_TRY(tt__shm_check(
                    s, rank, tt__shm_has_left(s, rank) && !is_here(s, g, k)));
        }
        const double waited = tt_comm_rest(&s->base, rest);
        if (waited > s->base.deadline)
            return tt_fail(TT_ERR_TIMEOUT,
                           "rank %d waited %.1f s for rank %d to meet it",
                           s->base.rank, waited, late);
    }
    return TT_OK;
}

// What every member wrote before is seen by all others afterwards.
static tt_status meet(tt__shm *s, const tt_group *g)
{
    tt_status status = TT_OK;
    for (int32_t i = 0; i < g->n; i++) {
        const int32_t r = tt_coll_rank(g, i);
        tt__peer *p = &s->peer[r];
        if (i == g->me)
            continue;
        p->awaited++;
        atomic_store(&tt__ring_of(s->world, s->base.rank, r)->step, ++p->steps);
        tt__bell_ring(&s->world->seat[r]);
    }
    s->meeting = g;
    for (int32_t i = 0; i < g->n && status == TT_OK; i++) {
        tt_rest rest = {0};
        status = wait_for(s, g, i, &rest);
        tt_comm_rested(&s->base, &rest);
    }
    s->meeting = NULL;
    return status;
}

// ---- folding -------------------------------------------------------------

// Whether the fold lies where nobody has just read: then it bypasses the cache.
static bool is_cold(const job *j, const char *to, int64_t at)
{
    const char *own = j->s->from[j->call->group.me];
    return j->call->kind == TT_REDUCE_SCATTER && to != own + at;
}

// That of all members, then copies in all of s->to that are not NULL.
static void fold_piece(const job *j, int64_t at, int64_t bytes, char *to)
{
    _Alignas(TT__LINE) char sum[PIECE];
    const tt__shm *s = j->s;
    const int32_t n = j->call->group.n;
    const bool cold = is_cold(j, to, at);
    const tt_fold_set set = {j->call->fold, j->call->rounds_each, n,
                             (const char *const *)s->from};
    tt_fold_pairs(&set, cold ? sum : to, at, bytes);
    if (cold)
        tt_stream(to, sum, bytes);
    for (int32_t i = 0; i < n; i++)
        if (s->to[i] != NULL)
            j->is_staged ? tt_stream(s->to[i] + at, to, bytes)
                         : (void)memcpy(s->to[i] + at, to, (size_t)bytes);
}

// Pieces do not touch each other, so threads change no bits.
static void fold_all(const job *j, char *to, int64_t bytes)
{
    enum { LARGE = 1 << 20 }; // less is over before other threads are awake
    const int32_t wanted = j->s->base.fold_threads;
    const int32_t most = (int32_t)omp_get_max_threads();
    const int32_t some = wanted < most ? wanted : most;
    const int32_t threads = bytes < LARGE || some < 1 ? 1 : some;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t at = 0; at < bytes; at += PIECE)
        fold_piece(j, at, bytes - at < PIECE ? bytes - at : PIECE, to + at);
}

static tt_block block_bytes(const job *j, int32_t i)
{
    const tt_block b = tt_coll_block(j->call, i);
    return (tt_block){tt_coll_bytes(j->call, b.first),
                      tt_coll_bytes(j->call, b.n)};
}

// ---- in place ------------------------------------------------------------

static const tt__seat *seat_of(const job *j, int32_t i)
{
    return &j->s->world->seat[tt_coll_rank(&j->call->group, i)];
}

// Shows the others where this member's arrays lie, if they can be reached.
static void show(const job *j)
{
    const tt_coll_call *call = j->call;
    tt__seat *seat = &j->s->world->seat[j->s->base.rank];
    const int64_t whole = tt_coll_bytes(call, call->count);
    const int64_t in =
        call->kind == TT_ALL_GATHER ? block_bytes(j, call->group.me).n : whole;
    seat->in = tt__shm_owns(j->s, call->in, in) ? call->in : NULL;
    seat->out = tt__shm_owns(j->s, call->out, whole) ? call->out : NULL;
}

static bool all_shown(const job *j)
{
    const bool needs_out = j->call->kind == TT_ALL_REDUCE;
    for (int32_t i = 0; i < j->call->group.n; i++)
        if (seat_of(j, i)->in == NULL ||
            (needs_out && seat_of(j, i)->out == NULL))
            return false;
    return true;
}

static void fold_in_place(const job *j)
{
    const tt_group *g = &j->call->group;
    const tt_block mine = block_bytes(j, g->me);
    const bool is_all = j->call->kind == TT_ALL_REDUCE;
    for (int32_t i = 0; i < g->n; i++) {
        const tt__seat *seat = seat_of(j, i);
        j->s->from[i] = seat->in + mine.first;
        j->s->to[i] = is_all && i != g->me ? seat->out + mine.first : NULL;
    }
    fold_all(j, (char *)j->call->out + (is_all ? mine.first : 0), mine.n);
}

// Each member begins with a different block, so that not all read the same memory.
static void copy_in_place(const job *j)
{
    const tt_group *g = &j->call->group;
    for (int32_t k = 0; k < g->n; k++) {
        const int32_t i = (g->me + k) % g->n;
        const tt_block b = block_bytes(j, i);
        char *to = (char *)j->call->out + b.first;
        if (b.n > 0 && to != seat_of(j, i)->in)
            memcpy(to, seat_of(j, i)->in, (size_t)b.n);
    }
}

// ---- through the stages --------------------------------------------------

// Piece k of block i in a rank's stage: as input, and folded.
static char *staged(const job *j, int32_t member, int64_t k, int32_t i)
{
    const tt_group *g = &j->call->group;
    const int64_t slot = (k % 2 == 0 ? 0 : g->n + 1) + i;
    return j->s->world->stage +
           (int64_t)tt_coll_rank(g, member) * TT__STAGE_BYTES + slot * j->part;
}

static char *result(const job *j, int32_t member, int64_t k)
{
    return staged(j, member, k, j->call->group.n);
}

// Piece k of block i, in bytes of the whole array; after the last one pieces are empty.
static tt_block piece_of(const job *j, int64_t k, int32_t i)
{
    const tt_block b = block_bytes(j, i);
    const int64_t first = k * j->part < b.n ? k * j->part : b.n;
    const int64_t left = b.n - first;
    return (tt_block){b.first + first, left < j->part ? left : j->part};
}

static void put(const job *j, int64_t k)
{
    const tt_coll_call *call = j->call;
    const int32_t me = call->group.me;
    const char *in = call->in;
    if (call->kind == TT_ALL_GATHER) {
        const tt_block p = piece_of(j, k, me);
        const int64_t before = block_bytes(j, me).first;
        if (p.n > 0)
            tt_stream(result(j, me, k), in + p.first - before, p.n);
        return;
    }
    for (int32_t i = 0; i < call->group.n; i++) {
        const tt_block p = piece_of(j, k, i);
        if (i != me && p.n > 0)
            tt_stream(staged(j, me, k, i), in + p.first, p.n);
    }
}

static void fold_staged(const job *j, int64_t k)
{
    const tt_coll_call *call = j->call;
    const int32_t me = call->group.me;
    const tt_block p = piece_of(j, k, me);
    const bool is_all = call->kind == TT_ALL_REDUCE;
    char *to = (char *)call->out + p.first;
    if (!is_all)
        to -= block_bytes(j, me).first;
    for (int32_t i = 0; i < call->group.n; i++) {
        j->s->from[i] =
            i == me ? (const char *)call->in + p.first : staged(j, i, k, me);
        j->s->to[i] = is_all && i == me ? result(j, me, k) : NULL;
    }
    fold_all(j, to, p.n);
}

static void take(const job *j, int64_t k)
{
    for (int32_t i = 0; i < j->call->group.n; i++) {
        const tt_block p = piece_of(j, k, i);
        const bool is_own = i == j->call->group.me;
        if (p.n > 0 && (!is_own || j->call->kind == TT_ALL_GATHER))
            memcpy((char *)j->call->out + p.first, result(j, i, k),
                   (size_t)p.n);
    }
}

static int64_t count_pieces(const job *j)
{
    int64_t most = 0;
    for (int32_t i = 0; i < j->call->group.n; i++) {
        const int64_t n = block_bytes(j, i).n;
        most = n > most ? n : most;
    }
    return (most + j->part - 1) / j->part;
}

// While piece k is folded and taken, piece k + 1 is put into the other slot. After the
// meeting between, a slot is free again.
static tt_status through_stages(job *j)
{
    const tt_group *g = &j->call->group;
    const tt_coll_kind kind = j->call->kind;
    const int64_t n = count_pieces(j);
    put(j, 0);
    TT_TRY(meet(j->s, g));
    for (int64_t k = 0; k < n; k++) {
        put(j, k + 1);
        if (kind == TT_ALL_GATHER)
            take(j, k);
        else
            fold_staged(j, k);
        TT_TRY(meet(j->s, g));
        if (kind == TT_ALL_REDUCE)
            take(j, k);
    }
    return kind == TT_ALL_REDUCE ? meet(j->s, g) : TT_OK;
}

// ---- the call ------------------------------------------------------------

// As if blocks had been sent and received, so that numbers can be compared with those
// of other algorithms.
static void count(const job *j)
{
    const tt_coll_call *call = j->call;
    const int64_t others = call->group.n - 1;
    const int64_t whole = tt_coll_bytes(call, call->count);
    const int64_t mine = block_bytes(j, call->group.me).n;
    tt_comm_stats *stats = &j->s->base.stats;
    int64_t out = whole - mine, in = others * mine, rounds = others;
    if (call->kind == TT_ALL_GATHER) {
        out = others * mine;
        in = whole - mine;
    } else if (call->kind == TT_ALL_REDUCE) {
        out = in = whole - mine + others * mine;
        rounds = 2 * others;
    }
    stats->sent_messages += rounds;
    stats->received_messages += rounds;
    stats->sent_bytes += out;
    stats->received_bytes += in;
}

bool tt__shm_has_native(const tt_comm *comm, const tt_coll_call *call)
{
    (void)comm;
    return call->kind == TT_ALL_REDUCE || call->kind == TT_REDUCE_SCATTER ||
           call->kind == TT_ALL_GATHER;
}

tt_status tt__shm_native(tt_comm *comm, const tt_coll_call *call)
{
    job j = {.s = (tt__shm *)comm, .call = call};
    const tt_group *g = &call->group;
    if (g->n == 1) {
        tt_coll_copy(call, call->out, call->in, call->count);
        return TT_OK;
    }
    j.part = TT__STAGE_BYTES / 2 / (g->n + INT64_C(1)) / TT__LINE * TT__LINE;
    show(&j);
    TT_TRY(meet(j.s, g));
    count(&j);
    j.is_staged = !all_shown(&j);
    if (j.is_staged)
        return through_stages(&j);
    if (call->kind == TT_ALL_GATHER)
        copy_in_place(&j);
    else
        fold_in_place(&j);
    return meet(j.s, g);
}
