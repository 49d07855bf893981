// mpi - messages over MPI, in pieces.
//
// A message is cut into pieces (mpi_hosts.c says how), so counts stay far below what
// an int holds. MPI keeps the order of messages between two ranks, so a piece
// needs no header: it is received whatever its tag, and the tag, made of the
// message's own tag and length, tells whether both sides mean the same message.
//
// There is no thread that drives progress: pieces only move while somebody waits
// for them, and that is the wire's communication thread, which does nothing else.
// (mpi_signs.c has a thread, but only to answer for a rank that computes.)
//
//   latency     MPI's, and a lock
//   bandwidth   MPI's; one copy more where the receiver folds

#include "comm/transport/mpi.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "comm/transport/mpi_state.h"

#include <string.h>
#include <time.h>

enum { BOUNCE_BYTES = 1 << 20 };  // the largest piece
static const long nap_ns = 50000; // MPI cannot be waited for with a deadline

tt_status tt__mpi_fail(const tt__mpi *m, int code, const char *what)
{
    char text[TT_MPI_TEXT] = "";
    m->api->explain(code, text);
    return tt_fail(TT_ERR_PEER, "rank %d: MPI failed to %s: %s", m->base.rank,
                   what, text);
}

// A hash of tag and length, so that a message of another length is noticed too.
static int piece_tag(const tt__mpi *m, const tt_msg *msg)
{
    uint64_t h = (uint32_t)msg->tag * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ (uint64_t)msg->bytes) * UINT64_C(0xbf58476d1ce4e5b9);
    h ^= h >> 31;
    return (int)(h % ((uint64_t)m->api->tag_most() + 1));
}

// ---- bounce buffers ------------------------------------------------------

static char *take_bounce(tt__mpi *m)
{
    char *b = m->spare;
    if (b == NULL)
        return tt_alloc(BOUNCE_BYTES);
    memcpy(&m->spare, b, sizeof m->spare);
    return b;
}

static void give_bounce(tt__mpi *m, char *b)
{
    if (b == NULL)
        return;
    memcpy(b, &m->spare, sizeof m->spare);
    m->spare = b;
}

// ---- posting -------------------------------------------------------------

static void *place(const tt_msg *msg, int64_t at)
{
    return msg->bytes == 0 ? NULL : (char *)msg->data + at;
}

// Hands the next piece of the lane's first message to MPI.
static tt_status post_piece(tt__mpi *m, tt__mpi_lane *lane, bool is_out)
{
    tt_msg *msg = lane->first;
    const int64_t left = msg->bytes - lane->posted;
    const int n = (int)(left < lane->cut.piece ? left : lane->cut.piece);
    tt__mpi_slot *slot = &lane->slot[lane->head % TT__MPI_WINDOW];
    void *at = place(msg, lane->posted);
    *slot = (tt__mpi_slot){.msg = msg, .bytes = n, .is_last = n == left};
    if (!is_out && msg->fold.op != TT_FOLD_COPY && n > 0) {
        slot->bounce = at = take_bounce(m);
        if (at == NULL)
            return tt_fail(TT_ERR_NOMEM, "mpi: no memory for a message");
    }
    const int code = is_out ? m->api->send(at, n, msg->peer, piece_tag(m, msg),
                                           &slot->request)
                            : m->api->receive(at, n, msg->peer, &slot->request);
    if (code != 0)
        return tt__mpi_fail(m, code, is_out ? "send" : "receive");
    lane->head++;
    lane->posted += n;
    if (slot->is_last) {
        lane->first = msg->next;
        lane->posted = 0;
    }
    return TT_OK;
}

static tt_status post_pieces(tt__mpi *m, tt__mpi_lane *lane, bool is_out)
{
    while (lane->first != NULL &&
           (int)(lane->head - lane->tail) < lane->cut.window)
        TT_TRY(post_piece(m, lane, is_out));
    return TT_OK;
}

static tt_status post(tt_comm *comm, tt_msg *msg, bool is_out)
{
    tt__mpi *m = (tt__mpi *)comm;
    tt__mpi_lane *lane = is_out ? &m->out[msg->peer] : &m->in[msg->peer];
    (void)pthread_mutex_lock(&m->lock);
    msg->next = NULL;
    if (lane->first == NULL)
        lane->first = msg;
    else
        lane->last->next = msg;
    lane->last = msg;
    const tt_status status =
        m->is_over ? tt_fail(TT_ERR_STATE, "mpi: used after a failure")
                   : post_pieces(m, lane, is_out);
    (void)pthread_mutex_unlock(&m->lock);
    return status;
}

static tt_status post_send(tt_comm *comm, tt_msg *msg)
{
    return post(comm, msg, true);
}

static tt_status post_receive(tt_comm *comm, tt_msg *msg)
{
    return post(comm, msg, false);
}

// ---- progress ------------------------------------------------------------

static tt_status other_message(const tt__mpi *m, const tt_msg *msg)
{
    return tt_fail(TT_ERR_PEER,
                   "rank %d expected message %d of %lld bytes from rank %d, "
                   "which sent another: the ranks do different things",
                   m->base.rank, msg->tag, (long long)msg->bytes, msg->peer);
}

static void finish_piece(tt__mpi *m, tt__mpi_lane *lane)
{
    tt__mpi_slot *slot = &lane->slot[lane->tail % TT__MPI_WINDOW];
    tt_msg *msg = slot->msg;
    if (slot->bounce != NULL)
        tt_fold_into(msg->fold, place(msg, msg->moved), slot->bounce,
                     slot->bytes);
    give_bounce(m, slot->bounce);
    msg->moved += slot->bytes;
    msg->is_done = slot->is_last;
    lane->tail++;
}

// Pieces are finished in their order; MPI moves later ones meanwhile.
static tt_status move_lane(tt__mpi *m, tt__mpi_lane *lane, bool is_out,
                           bool *moved)
{
    while (lane->head != lane->tail) {
        tt__mpi_slot *slot = &lane->slot[lane->tail % TT__MPI_WINDOW];
        tt_mpi_arrival got = {0};
        bool is_done = false;
        const int code =
            m->api->test(&slot->request, &is_done, is_out ? NULL : &got);
        if (code != 0 && m->api->is_truncated(code))
            return other_message(m, slot->msg);
        if (code != 0)
            return tt__mpi_fail(m, code, is_out ? "send" : "receive");
        if (!is_done)
            return TT_OK;
        if (!is_out &&
            (got.bytes != slot->bytes || got.tag != piece_tag(m, slot->msg)))
            return other_message(m, slot->msg);
        finish_piece(m, lane);
        *moved = true;
        TT_TRY(post_pieces(m, lane, is_out));
    }
    return TT_OK;
}

static tt_status move_all(tt__mpi *m, bool *moved)
{
    for (int32_t r = 0; r < m->base.size; r++) {
        if (tt__mpi_is_busy(&m->in[r]))
            TT_TRY(move_lane(m, &m->in[r], false, moved));
        if (tt__mpi_is_busy(&m->out[r]))
            TT_TRY(move_lane(m, &m->out[r], true, moved));
    }
    if (*moved)
        m->idle_since = 0;
    else
        TT_TRY(tt__mpi_listen(m));
    return TT_OK;
}

static tt_status progress(tt_comm *comm, bool *moved_out)
{
    tt__mpi *m = (tt__mpi *)comm;
    *moved_out = false;
    (void)pthread_mutex_lock(&m->lock);
    const tt_status status =
        m->is_over ? tt_fail(TT_ERR_STATE, "mpi: used after a failure")
                   : move_all(m, moved_out);
    (void)pthread_mutex_unlock(&m->lock);
    return status;
}

static void doze(tt_comm *comm, double seconds)
{
    const struct timespec pause = {.tv_nsec = nap_ns};
    (void)comm, (void)seconds;
    (void)nanosleep(&pause, NULL);
}

// MPI touches messages that it still holds only inside its calls, and there will be no
// more calls.
static void abandon(tt_comm *comm)
{
    tt__mpi *m = (tt__mpi *)comm;
    (void)pthread_mutex_lock(&m->lock);
    m->is_over = true;
    for (int32_t r = 0; r < comm->size; r++)
        m->out[r].first = m->in[r].first = NULL;
    (void)pthread_mutex_unlock(&m->lock);
}

// A local network's; calibration replaces it.
static tt_link link_to(const tt_comm *comm, int32_t to)
{
    (void)comm, (void)to;
    return (tt_link){.latency = 2e-5, .per_byte = 8e-10};
}

// ---- opening and closing -------------------------------------------------

static void free_lane(tt__mpi_lane *lane)
{
    for (; lane->tail != lane->head; lane->tail++)
        tt_free(lane->slot[lane->tail % TT__MPI_WINDOW].bounce);
}

static void free_all(tt__mpi *m)
{
    for (int32_t r = 0; r < m->base.size && m->in != NULL; r++)
        free_lane(&m->in[r]);
    while (m->spare != NULL)
        tt_free(take_bounce(m));
    tt_free(m->in);
    tt_free(m->out);
    tt_free(m->pulse);
    tt_free(m->counts);
    tt_free_aligned(m->stage);
    tt_free(m->host);
    (void)pthread_mutex_destroy(&m->lock);
    (void)pthread_cond_destroy(&m->wake);
    tt_free(m);
}

// After a failure MPI is left as it is: finalize would wait for the others, and a
// process that ends without it makes the launcher end them.
static void close_mpi(tt_comm *comm)
{
    tt__mpi *m = (tt__mpi *)comm;
    const bool is_well = !m->is_over;
    tt__mpi_stop_answering(m);
    if (is_well)
        (void)m->api->finalize();
    free_all(m);
}

const tt_comm_def tt_comm_mpi = {
    .name = "mpi",
    .doc = "Ranks that mpirun, mpiexec or srun started.",
    .send = post_send,
    .receive = post_receive,
    .progress = progress,
    .doze = doze,
    .idle = tt__mpi_idle,
    .abandon = abandon,
    .link = link_to,
    .has_native = tt__mpi_has_native,
    .native = tt__mpi_native,
    .close = close_mpi,
    .tested_by = "mpirun -n 3 tutti check transport",
};

static tt_status allocate(tt__mpi *m)
{
    const int64_t n = m->base.size;
    m->in = tt_alloc(n * (int64_t)sizeof *m->in);
    m->out = tt_alloc(n * (int64_t)sizeof *m->out);
    m->pulse = tt_alloc(n * (int64_t)sizeof *m->pulse);
    m->counts = tt_alloc(4 * n * (int64_t)sizeof *m->counts);
    m->host = tt_alloc(n * (int64_t)sizeof *m->host);
    if (m->in == NULL || m->out == NULL || m->pulse == NULL ||
        m->counts == NULL || m->host == NULL)
        return tt_fail(TT_ERR_NOMEM, "mpi: no memory for %d ranks",
                       m->base.size);
    tt__mpi_cut_lanes(m);
    return TT_OK;
}

tt_status tt__mpi_open_api(const tt_mpi_api *api, double deadline,
                           tt_comm **comm_out)
{
    tt__mpi *m = tt_alloc(sizeof *m);
    if (m == NULL)
        return tt_fail(TT_ERR_NOMEM, "mpi: no memory");
    m->api = api;
    m->silence = deadline;
    m->lost_by = -1;
    (void)pthread_mutex_init(&m->lock, NULL);
    (void)pthread_cond_init(&m->wake, NULL);
    const int code = api->init(tt_fold_into);
    m->base = (tt_comm){.def = &tt_comm_mpi, .deadline = 2 * deadline + 5};
    tt_status status = TT_OK;
    if (code != 0) {
        status = tt__mpi_fail(m, code, "start");
    } else {
        m->base.rank = api->rank();
        m->base.size = api->size();
        api->about(m->about);
        status = allocate(m);
    }
    if (status == TT_OK)
        status = tt__mpi_start_answering(m);
    if (status != TT_OK) {
        free_all(m);
        return status;
    }
    status = tt__mpi_find_hosts(m);
    if (status != TT_OK) {
        close_mpi(&m->base);
        return status;
    }
    *comm_out = &m->base;
    return TT_OK;
}

bool tt_mpi_has_lost_first(const tt_comm *comm)
{
    return ((const tt__mpi *)comm)->has_lost_first;
}

const char *tt_mpi_about(const tt_comm *comm)
{
    return ((const tt__mpi *)comm)->about;
}

const int32_t *tt_mpi_hosts(const tt_comm *comm, int32_t *n_hosts_out)
{
    const tt__mpi *m = (const tt__mpi *)comm;
    *n_hosts_out = m->n_hosts;
    return m->host;
}
