// shm - messages between ranks of one host, through rings or read where they lie.
//
// Each ordered pair of ranks has a ring of 64 KiB in shared memory. It has one writer
// and one reader, so two counters are enough and no lock is needed: `head` counts bytes
// written, `tail` bytes read, both since the beginning. A message is a header and, if
// it is streamed, its bytes.
//
//   writer  --->  | hdr | bytes ..... | hdr | bytes |            |  ---> reader
//                 ^ tail                            ^ head
//
//   small, or not in shared memory   header and bytes through the ring: two copies.
//                                    Large copies bypass the cache (stream.h)
//   from 4 KiB on, in the sender's   header with the address. The receiver copies or
//   shared memory                    adds straight from there: one copy. The sender's
//                                    message is done when the receiver says so (`done`)
//
// Shared memory has the same address in all processes, which is why an address can be
// sent.
//
//   latency     a few hundred nanoseconds between two running ranks
//   bandwidth   that of memory
//
// A rank that finds nothing to do sleeps on its bell (a futex). To miss no message, it
// first says that it sleeps, then looks once more, then sleeps. A writer first writes,
// then looks whether the reader sleeps. In whichever order these happen, one of the two
// notices. All of these are sequentially consistent operations.

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/stream.h"
#include "comm/transport/shm_world.h"

#include <string.h>

enum { DIRECT_FROM = 4096, PIECE = 1 << 20, SIP = 16 << 10 };

typedef tt__shm shm;
typedef tt__peer peer;
typedef tt__shm_queue queue;
typedef tt__header header;

static void push(queue *q, tt_msg *msg)
{
    msg->next = NULL;
    if (q->first == NULL)
        q->first = msg;
    else
        q->last->next = msg;
    q->last = msg;
}

static tt_msg *pop(queue *q)
{
    tt_msg *msg = q->first;
    q->first = msg->next;
    return msg;
}

static tt_status post_send(tt_comm *comm, tt_msg *msg)
{
    push(&((shm *)comm)->peer[msg->peer].out, msg);
    return TT_OK;
}

static tt_status post_receive(tt_comm *comm, tt_msg *msg)
{
    push(&((shm *)comm)->peer[msg->peer].in, msg);
    return TT_OK;
}

// ---- the ring ------------------------------------------------------------

static int64_t padded(int64_t bytes)
{
    return (bytes + TT__RING_UNIT - 1) / TT__RING_UNIT * TT__RING_UNIT;
}

static void ring_put(tt__ring *ring, uint64_t at, const void *data, int64_t n)
{
    const int64_t first = (int64_t)(at % TT__RING_BYTES);
    const int64_t until = TT__RING_BYTES - first;
    const int64_t k = n < until ? n : until;
    tt_stream(ring->data + first, data, k);
    if (n > k)
        tt_stream(ring->data, (const char *)data + k, n - k);
}

static void ring_get(const tt__ring *ring, uint64_t at, void *data, int64_t n)
{
    const int64_t first = (int64_t)(at % TT__RING_BYTES);
    const int64_t until = TT__RING_BYTES - first;
    const int64_t k = n < until ? n : until;
    memcpy(data, ring->data + first, (size_t)k);
    if (n > k)
        memcpy((char *)data + k, ring->data, (size_t)(n - k));
}

// Free bytes in the ring to the peer. The peer's counter is read only when needed: each
// read of a line that another core writes is a cache miss.
static int64_t room(peer *p, const tt__ring *ring, int64_t wanted)
{
    if (TT__RING_BYTES - (int64_t)(p->head - p->tail_seen) < wanted)
        p->tail_seen = atomic_load(&ring->tail);
    return TT__RING_BYTES - (int64_t)(p->head - p->tail_seen);
}

static int64_t filled(peer *p, const tt__ring *ring)
{
    if (p->head_seen == p->tail)
        p->head_seen = atomic_load(&ring->head);
    return (int64_t)(p->head_seen - p->tail);
}

// ---- sending -------------------------------------------------------------

bool tt__shm_owns(const tt__shm *s, const void *data, int64_t bytes)
{
    const char *mine = s->world->memory + s->base.rank * s->world->rank_bytes;
    const char *at = data;
    return at >= mine && at + bytes <= mine + s->world->rank_bytes;
}

// Writes as much of the first message in `out` as there is room for. Pieces are padded
// to whole units, so that elements in the ring are aligned and none is cut at its end:
// the receiver adds them straight from the ring.
static bool stream(peer *p, tt__ring *ring)
{
    tt_msg *msg = p->out.first;
    const int64_t left = msg->bytes - msg->moved;
    const int64_t most =
        room(p, ring, padded(left)) / TT__RING_UNIT * TT__RING_UNIT;
    const int64_t n = left < most ? left : most;
    ring_put(ring, p->head, (const char *)msg->data + msg->moved, n);
    p->head += (uint64_t)padded(n);
    msg->moved += n;
    p->is_started = msg->moved < msg->bytes;
    if (!p->is_started)
        pop(&p->out)->is_done = true;
    return n > 0;
}

// The first message's header, then its bytes; false: the ring is full.
static bool start(const shm *s, peer *p, tt__ring *ring)
{
    tt_msg *msg = p->out.first;
    const bool is_direct =
        msg->bytes >= DIRECT_FROM && tt__shm_owns(s, msg->data, msg->bytes);
    const header h = {.bytes = msg->bytes,
                      .direct = is_direct ? msg->data : NULL,
                      .tag = msg->tag};
    if (room(p, ring, sizeof h) < (int64_t)sizeof h)
        return false;
    ring_put(ring, p->head, &h, sizeof h);
    p->head += sizeof h;
    if (is_direct) {
        msg->ticket = ++p->n_direct;
        push(&p->unread, pop(&p->out));
    } else {
        (void)stream(p, ring);
    }
    return true;
}

// Messages that went as addresses are done when the receiver has read them. It reads
// them in order, so one counter answers for all.
static bool finish_direct(peer *p, const tt__ring *ring)
{
    if (p->unread.first == NULL)
        return false;
    const uint64_t done = atomic_load(&ring->done);
    bool moved = false;
    while (p->unread.first != NULL && p->unread.first->ticket <= done) {
        tt_msg *msg = pop(&p->unread);
        msg->moved = msg->bytes;
        msg->is_done = true;
        moved = true;
    }
    return moved;
}

// Writes all that fits, and only then publishes the new head and rings the bell: one
// store and at most one system call for many small messages.
static bool push_out(shm *s, int32_t to)
{
    peer *p = &s->peer[to];
    tt__ring *ring = tt__ring_of(s->world, s->base.rank, to);
    const uint64_t before = p->head;
    while (p->out.first != NULL &&
           (p->is_started ? stream(p, ring) : start(s, p, ring)))
        ;
    if (p->head != before) {
        atomic_store(&ring->head, p->head);
        tt__bell_ring(&s->world->seat[to]);
    }
    return finish_direct(p, ring) || p->head != before;
}

// ---- receiving -----------------------------------------------------------

// Messages are matched by position only. Length and tag are compared, because ranks
// that do different things would otherwise exchange nonsense without a word.
static tt_status take_header(const shm *s, peer *p, int32_t from,
                             const tt__ring *ring)
{
    const tt_msg *msg = p->in.first;
    ring_get(ring, p->tail, &p->header, sizeof(header));
    p->tail += sizeof(header);
    p->has_header = true;
    if (p->header.bytes != msg->bytes || p->header.tag != msg->tag)
        return tt_fail(TT_ERR_PEER,
                       "rank %d expected message %d of %lld bytes from rank "
                       "%d, which sent message %d of %lld: the ranks do "
                       "different things",
                       s->base.rank, msg->tag, (long long)msg->bytes, from,
                       p->header.tag, (long long)p->header.bytes);
    return TT_OK;
}

// In pieces, so that one large message does not hold up all others of this rank.
static bool read_direct(const peer *p, tt_msg *msg)
{
    const int64_t left = msg->bytes - msg->moved;
    const int64_t n = left < PIECE ? left : PIECE;
    tt_fold_into(msg->fold, (char *)msg->data + msg->moved,
                 p->header.direct + msg->moved, n);
    msg->moved += n;
    return n > 0;
}

// Reads up to the end of the ring's memory, in whole units except at the message's end;
// in small amounts, so that the writer can continue meanwhile.
static bool read_stream(peer *p, tt__ring *ring, tt_msg *msg)
{
    const int64_t first = (int64_t)(p->tail % TT__RING_BYTES);
    const int64_t left = msg->bytes - msg->moved;
    int64_t n = filled(p, ring);
    n = n < TT__RING_BYTES - first ? n : TT__RING_BYTES - first;
    n = n < left ? n : left;
    n = n < SIP ? n : SIP;
    if (n == 0)
        return false;
    tt_fold_into(msg->fold, (char *)msg->data + msg->moved, ring->data + first,
                 n);
    msg->moved += n;
    p->tail += (uint64_t)padded(n);
    if (msg->moved < msg->bytes)
        atomic_store(&ring->tail, p->tail);
    return true;
}

static void finish_receive(peer *p, tt__ring *ring)
{
    if (p->header.direct != NULL)
        (void)atomic_fetch_add(&ring->done, 1);
    p->has_header = false;
    pop(&p->in)->is_done = true;
}

static tt_status pull_in(shm *s, int32_t from, bool *moved_out)
{
    peer *p = &s->peer[from];
    tt__ring *ring = tt__ring_of(s->world, from, s->base.rank);
    bool moved = false, goes_on = true;
    while (p->in.first != NULL && goes_on) {
        tt_msg *msg = p->in.first;
        goes_on = false;
        if (!p->has_header) {
            if (filled(p, ring) == 0)
                break;
            TT_TRY(take_header(s, p, from, ring));
            goes_on = true;
        }
        if (msg->moved < msg->bytes)
            goes_on |= p->header.direct != NULL ? read_direct(p, msg)
                                                : read_stream(p, ring, msg);
        if (msg->moved == msg->bytes)
            finish_receive(p, ring);
        moved |= goes_on;
    }
    if (moved) {
        atomic_store(&ring->tail, p->tail);
        tt__bell_ring(&s->world->seat[from]);
        *moved_out = true;
    }
    return TT_OK;
}

static int presence_of(const tt__shm *s, int32_t rank)
{
    return atomic_load(&s->world->seat[rank].presence);
}

static tt_status say_failed(const tt__shm *s, int32_t rank)
{
    static const char *const how[] = {[TT__LOST_SOMEHOW] = "failed",
                                      [TT__LOST_GONE] = "died",
                                      [TT__LOST_SILENT] =
                                          "gave no sign of life"};
    const char *what = how[atomic_load(&s->world->seat[rank].loss)];
    if (rank == s->base.rank)
        return tt_fail(TT_ERR_PEER, "rank %d %s, so the others gave it up",
                       rank, what);
    return tt_fail(TT_ERR_PEER, "rank %d %s while rank %d waited for it", rank,
                   what, s->base.rank);
}

// A peer that left for good cannot answer. But a rank that leaves may do so because
// some other rank failed: then that one is named, since it is the cause.
tt_status tt__shm_check(const tt__shm *s, int32_t rank, bool is_awaited)
{
    const bool has_left = is_awaited && presence_of(s, rank) == TT__LEFT;
    if (!has_left && presence_of(s, rank) != TT__FAILED)
        return TT_OK;
    for (int32_t r = 0; r < s->base.size; r++)
        if (presence_of(s, r) == TT__FAILED)
            return say_failed(s, r);
    return tt_fail(TT_ERR_PEER, "rank %d left while rank %d waited for it",
                   rank, s->base.rank);
}

bool tt__shm_has_left(const tt__shm *s, int32_t rank)
{
    return presence_of(s, rank) == TT__LEFT;
}

static tt_status move(shm *s, int32_t r, bool *moved)
{
    const peer *p = &s->peer[r];
    if (p->out.first != NULL || p->unread.first != NULL)
        *moved |= push_out(s, r);
    return p->in.first != NULL ? pull_in(s, r, moved) : TT_OK;
}

static tt_status progress(tt_comm *comm, bool *moved_out)
{
    shm *s = (shm *)comm;
    bool moved = false;
    for (int32_t r = 0; r < comm->size; r++)
        TT_TRY(move(s, r, &moved));
    for (int32_t r = 0; r < comm->size && !moved; r++) {
        const peer *p = &s->peer[r];
        // What a rank did just before it left is seen by looking again: if it had left
        // before that. One that leaves meanwhile is looked at the next time.
        const bool has_left = tt__shm_has_left(s, r);
        if (has_left)
            TT_TRY(move(s, r, &moved));
        if (!moved)
            TT_TRY(tt__shm_check(
                s, r,
                has_left && (p->in.first != NULL || p->unread.first != NULL)));
    }
    *moved_out = moved;
    return TT_OK;
}

// ---- sleeping ------------------------------------------------------------

static bool has_news(const shm *s, int32_t r)
{
    const peer *p = &s->peer[r];
    const tt__ring *to = tt__ring_of(s->world, s->base.rank, r);
    const tt__ring *from = tt__ring_of(s->world, r, s->base.rank);
    return (p->out.first != NULL && atomic_load(&to->tail) != p->tail_seen) ||
           (p->unread.first != NULL &&
            atomic_load(&to->done) >= p->unread.first->ticket) ||
           (p->in.first != NULL && atomic_load(&from->head) != p->tail);
}

static void doze(tt_comm *comm, double seconds)
{
    shm *s = (shm *)comm;
    tt__seat *seat = &s->world->seat[comm->rank];
    const unsigned seen = atomic_load(&seat->bell);
    (void)atomic_fetch_add(&seat->n_asleep, 1);
    bool is_awake = atomic_load(&s->is_woken) ||
                    (s->meeting != NULL && tt__shm_has_met(s, s->meeting));
    for (int32_t r = 0; r < comm->size && !is_awake; r++)
        is_awake = has_news(s, r);
    if (!is_awake)
        tt__bell_wait(seat, seen, seconds);
    (void)atomic_fetch_sub(&seat->n_asleep, 1);
    atomic_store(&s->is_woken, false); // it is awake, and looks now
}

// The flag is for a doze that has not begun yet: it looks at the flag after it has said
// that it sleeps.
static void wake(tt_comm *comm)
{
    shm *s = (shm *)comm;
    atomic_store(&s->is_woken, true);
    tt__bell_ring(&s->world->seat[comm->rank]);
}

// When a rank was last known to work; 0: not known. A rank that waits says since when;
// a rank that works is known by its heartbeat.
static double worked_at(shm *s, int32_t r, double now)
{
    const tt__seat *seat = &s->world->seat[r];
    peer *p = &s->peer[r];
    const double idle_since = atomic_load(&seat->idle_since);
    const unsigned beats = atomic_load(&seat->beats);
    if (presence_of(s, r) == TT__LEFT)
        return 0;
    if (beats != p->beats)
        p->beat_at = now;
    p->beats = beats;
    return idle_since > 0 ? idle_since : p->beat_at;
}

static double idle(tt_comm *comm, double since)
{
    shm *s = (shm *)comm;
    const double now = tt_clock_seconds();
    double last = since;
    atomic_store(&s->world->seat[comm->rank].idle_since, since);
    for (int32_t r = 0; r < comm->size && since > 0; r++) {
        const double at = r == comm->rank ? 0 : worked_at(s, r, now);
        last = at > last ? at : last;
    }
    return now - last;
}

static void abandon(tt_comm *comm)
{
    shm *s = (shm *)comm;
    for (int32_t r = 0; r < comm->size; r++)
        s->peer[r].out = s->peer[r].unread = s->peer[r].in = (queue){0};
    // Before it leaves: peers that fail because of that fail later.
    tt__seat *seat = &s->world->seat[comm->rank];
    if (seat->failed_at == 0)
        seat->failed_at = tt_clock_seconds();
}

// ---- the rest ------------------------------------------------------------

static void *alloc(tt_comm *comm, int64_t bytes)
{
    shm *s = (shm *)comm;
    const int64_t at = (s->used + TT__LINE - 1) / TT__LINE * TT__LINE;
    if (bytes < 0 || bytes > s->world->rank_bytes - at)
        return NULL;
    s->used = at + bytes;
    return s->world->memory + comm->rank * s->world->rank_bytes + at;
}

// Measured between two running ranks; calibration replaces it.
static tt_link link_to(const tt_comm *comm, int32_t to)
{
    (void)comm, (void)to;
    return (tt_link){.latency = 1e-6, .per_byte = 1.5e-10};
}

static void close_shm(tt_comm *comm)
{
    shm *s = (shm *)comm;
    tt_shm_world_leave(s->world, comm->rank);
    tt_free(s->from);
    tt_free(s->to);
    tt_free(s);
}

const tt_comm_def tt_comm_shm = {
    .name = "shm",
    .doc = "Ranks on one machine, over shared memory.",
    .send = post_send,
    .receive = post_receive,
    .progress = progress,
    .doze = doze,
    .wake = wake,
    .idle = idle,
    .abandon = abandon,
    .alloc = alloc,
    .shows_memory = true,
    .link = link_to,
    .has_native = tt__shm_has_native,
    .native = tt__shm_native,
    .is_native_ordered = true,
    .scatters_in_place = true,
    .close = close_shm,
};

tt_status tt_shm_open(tt_shm_world *world, int32_t rank, double deadline,
                      tt_comm **comm_out)
{
    const int64_t n = world->n_ranks;
    if (rank < 0 || rank >= n)
        return tt_fail(TT_ERR_ARG, "shm: rank %d of %d", rank, world->n_ranks);
    shm *s = tt_alloc((int64_t)sizeof *s + n * (int64_t)sizeof s->peer[0]);
    if (s != NULL) {
        s->from = tt_alloc(n * (int64_t)sizeof *s->from);
        s->to = tt_alloc(n * (int64_t)sizeof *s->to);
    }
    if (s == NULL || s->from == NULL || s->to == NULL) {
        tt_free(s == NULL ? NULL : s->from);
        tt_free(s == NULL ? NULL : s->to);
        tt_free(s);
        return tt_fail(TT_ERR_NOMEM, "shm: no memory for rank %d", rank);
    }
    s->base = (tt_comm){.def = &tt_comm_shm,
                        .rank = rank,
                        .size = world->n_ranks,
                        .deadline = deadline,
                        .journal = &world->seat[rank].journal};
    s->world = world;
    atomic_store(&world->seat[rank].presence, TT__HERE);
    *comm_out = &s->base;
    return TT_OK;
}
