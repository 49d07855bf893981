// shm - messages through rings, or read where they lie.
//
//   small, or not in shared memory   header and bytes through the ring: two copies
//   in the sender's shared memory    header with the address; the receiver copies
//                                    or adds straight from there: one copy
//
//   latency     a few hundred nanoseconds between two running ranks
//   bandwidth   that of memory

#include "base/alloc.h"
#include "comm/transport/shm_world.h"

#include <string.h>

enum { DIRECT_FROM = 4096, PIECE = 1 << 20 };

typedef struct header {
    int64_t bytes;
    const char *direct; // where the bytes are; NULL: they follow
    int32_t tag, padding;
} header;

typedef struct queue {
    tt_msg *first, *last;
} queue;

typedef struct peer {
    queue out;       // not written yet, or in part
    queue unread;    // written as addresses; the receiver reads them
    queue in;        // posted receives
    bool is_started; // of `out`: the first one's header is written
    bool has_header; // of `in`: it belongs to the first one
    header header;
    uint64_t n_direct; // addresses sent
} peer;

typedef struct shm {
    tt_comm base;
    tt_shm_world *world;
    unsigned seen; // this rank's bell before the last progress
    int64_t used;  // of this rank's shared memory
    peer peer[];
} shm;

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
    memcpy(ring->data + first, data, (size_t)k);
    memcpy(ring->data, (const char *)data + k, (size_t)(n - k));
}

static int64_t ring_room(tt__ring *ring)
{
    return TT__RING_BYTES -
           (int64_t)(atomic_load_explicit(&ring->head, memory_order_relaxed) -
                     atomic_load_explicit(&ring->tail, memory_order_acquire));
}

static int64_t ring_filled(tt__ring *ring)
{
    return (int64_t)(atomic_load_explicit(&ring->head, memory_order_acquire) -
                     atomic_load_explicit(&ring->tail, memory_order_relaxed));
}

static void ring_wrote(tt__ring *ring, int64_t n)
{
    (void)atomic_fetch_add_explicit(&ring->head, (uint64_t)n,
                                    memory_order_release);
}

static void ring_read(tt__ring *ring, int64_t n)
{
    (void)atomic_fetch_add_explicit(&ring->tail, (uint64_t)n,
                                    memory_order_release);
}

// ---- sending -------------------------------------------------------------

static bool is_shared(const shm *s, const tt_msg *msg)
{
    const char *mine = s->world->memory + s->base.rank * s->world->rank_bytes;
    const char *data = msg->data;
    return msg->bytes >= DIRECT_FROM && data >= mine &&
           data + msg->bytes <= mine + s->world->rank_bytes;
}

// The header of the first message in `out`; false: the ring is full.
static bool start(const shm *s, peer *p, tt__ring *ring)
{
    tt_msg *msg = p->out.first;
    const bool is_direct = is_shared(s, msg);
    const header h = {.bytes = msg->bytes,
                      .direct = is_direct ? msg->data : NULL,
                      .tag = msg->tag};
    if (ring_room(ring) < (int64_t)sizeof h)
        return false;
    ring_put(ring, atomic_load_explicit(&ring->head, memory_order_relaxed), &h,
             sizeof h);
    ring_wrote(ring, sizeof h);
    if (is_direct) {
        msg->ticket = ++p->n_direct;
        push(&p->unread, pop(&p->out));
    } else if (msg->bytes == 0) {
        pop(&p->out)->is_done = true;
    } else {
        p->is_started = true;
    }
    return true;
}

static bool stream(peer *p, tt__ring *ring)
{
    tt_msg *msg = p->out.first;
    const int64_t room = ring_room(ring) / TT__RING_UNIT * TT__RING_UNIT;
    const int64_t left = msg->bytes - msg->moved;
    const int64_t n = left < room ? left : room;
    if (n == 0)
        return false;
    ring_put(ring, atomic_load_explicit(&ring->head, memory_order_relaxed),
             (const char *)msg->data + msg->moved, n);
    ring_wrote(ring, padded(n));
    msg->moved += n;
    if (msg->moved == msg->bytes) {
        pop(&p->out)->is_done = true;
        p->is_started = false;
    }
    return true;
}

static bool finish_direct(peer *p, tt__ring *ring)
{
    const uint64_t done =
        atomic_load_explicit(&ring->done, memory_order_acquire);
    bool moved = false;
    while (p->unread.first != NULL && p->unread.first->ticket <= done) {
        tt_msg *msg = pop(&p->unread);
        msg->moved = msg->bytes;
        msg->is_done = true;
        moved = true;
    }
    return moved;
}

static bool push_out(shm *s, int32_t to)
{
    peer *p = &s->peer[to];
    tt__ring *ring = tt__ring_of(s->world, s->base.rank, to);
    bool wrote = false;
    while (p->out.first != NULL &&
           (p->is_started ? stream(p, ring) : start(s, p, ring)))
        wrote = true;
    if (wrote)
        tt__bell_ring(&s->world->seat[to]);
    return finish_direct(p, ring) || wrote;
}

// ---- receiving -----------------------------------------------------------

static tt_status take_header(const shm *s, peer *p, int32_t from,
                             tt__ring *ring)
{
    const tt_msg *msg = p->in.first;
    const uint64_t at = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    const int64_t first = (int64_t)(at % TT__RING_BYTES);
    const int64_t until = TT__RING_BYTES - first;
    const int64_t whole = sizeof(header);
    const int64_t k = until < whole ? until : whole;
    memcpy(&p->header, ring->data + first, (size_t)k);
    memcpy((char *)&p->header + k, ring->data, (size_t)(whole - k));
    ring_read(ring, whole);
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

static bool read_direct(const peer *p, tt_msg *msg)
{
    const int64_t left = msg->bytes - msg->moved;
    const int64_t n = left < PIECE ? left : PIECE;
    tt_fold_into(msg->fold, (char *)msg->data + msg->moved,
                 p->header.direct + msg->moved, n);
    msg->moved += n;
    return n > 0;
}

// Up to the end of the ring's memory, in whole units but for the message's end.
static bool read_stream(tt__ring *ring, tt_msg *msg)
{
    const uint64_t at = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    const int64_t first = (int64_t)(at % TT__RING_BYTES);
    const int64_t left = msg->bytes - msg->moved;
    int64_t n = ring_filled(ring);
    n = n < TT__RING_BYTES - first ? n : TT__RING_BYTES - first;
    n = n < left ? n : left;
    if (n == 0)
        return false;
    tt_fold_into(msg->fold, (char *)msg->data + msg->moved, ring->data + first,
                 n);
    msg->moved += n;
    ring_read(ring, padded(n));
    return true;
}

static void finish_receive(peer *p, tt__ring *ring)
{
    if (p->header.direct != NULL)
        (void)atomic_fetch_add_explicit(&ring->done, 1, memory_order_release);
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
            if (ring_filled(ring) < (int64_t)sizeof(header))
                break;
            TT_TRY(take_header(s, p, from, ring));
            goes_on = true;
        }
        if (msg->moved < msg->bytes)
            goes_on |= p->header.direct != NULL ? read_direct(p, msg)
                                                : read_stream(ring, msg);
        if (msg->moved == msg->bytes)
            finish_receive(p, ring);
        moved |= goes_on;
    }
    if (moved) {
        tt__bell_ring(&s->world->seat[from]);
        *moved_out = true;
    }
    return TT_OK;
}

// A peer that left for good cannot answer.
static tt_status check_peer(const shm *s, int32_t r)
{
    const peer *p = &s->peer[r];
    const int presence = atomic_load(&s->world->seat[r].presence);
    if (presence == TT__FAILED ||
        (presence == TT__LEFT &&
         (p->in.first != NULL || p->unread.first != NULL)))
        return tt_fail(TT_ERR_PEER, "rank %d %s while rank %d waited for it", r,
                       presence == TT__FAILED ? "failed" : "left",
                       s->base.rank);
    return TT_OK;
}

static tt_status progress(tt_comm *comm, bool *moved_out)
{
    shm *s = (shm *)comm;
    bool moved = false;
    s->seen = atomic_load(&s->world->seat[comm->rank].bell);
    for (int32_t r = 0; r < comm->size; r++) {
        const peer *p = &s->peer[r];
        if (p->out.first != NULL || p->unread.first != NULL)
            moved |= push_out(s, r);
        if (p->in.first != NULL)
            TT_TRY(pull_in(s, r, &moved));
    }
    for (int32_t r = 0; r < comm->size && !moved; r++)
        TT_TRY(check_peer(s, r));
    *moved_out = moved;
    return TT_OK;
}

static void doze(tt_comm *comm, double seconds)
{
    shm *s = (shm *)comm;
    tt__bell_wait(&s->world->seat[comm->rank], s->seen, seconds);
}

static void abandon(tt_comm *comm)
{
    shm *s = (shm *)comm;
    for (int32_t r = 0; r < comm->size; r++)
        s->peer[r].out = s->peer[r].unread = s->peer[r].in = (queue){0};
}

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
    atomic_store(&s->world->seat[comm->rank].presence, TT__LEFT);
    for (int32_t r = 0; r < comm->size; r++)
        tt__bell_ring(&s->world->seat[r]);
    tt_free(s);
}

const tt_comm_def tt_comm_shm = {
    .name = "shm",
    .doc = "Ranks on one machine, over shared memory.",
    .send = post_send,
    .receive = post_receive,
    .progress = progress,
    .doze = doze,
    .abandon = abandon,
    .alloc = alloc,
    .link = link_to,
    .close = close_shm,
};

tt_status tt_shm_open(tt_shm_world *world, int32_t rank, double deadline,
                      tt_comm **comm_out)
{
    if (rank < 0 || rank >= world->n_ranks)
        return tt_fail(TT_ERR_ARG, "shm: rank %d of %d", rank, world->n_ranks);
    shm *s = tt_alloc((int64_t)sizeof *s +
                      world->n_ranks * (int64_t)sizeof s->peer[0]);
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "shm: no memory for rank %d", rank);
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
