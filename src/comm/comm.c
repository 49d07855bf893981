// comm - waiting with a deadline, and counting.
//
// The problem. Each wait needs a deadline, or a lost rank hangs all others forever.
// But a rank that makes a plan or writes a large checkpoint may be silent for minutes,
// and nothing is wrong.
//
// The idea. Time counts only while nobody works. A rank that waits tells the others
// since when nothing has moved (`idle` of the transport). A wait fails when the
// youngest of these times, over all ranks, is older than the deadline, or when the
// transport knows that a peer is gone.
//
//   rank 0   waits ..................................... and goes on
//   rank 1   waits ................................
//   rank 2   writes a checkpoint ..............| waits     the clock starts here
//
// A turn of a wait in which nothing moved costs little at first and then frees the
// core: 40 spins, 10 yields, then sleeps of 50 ms at most, from which a message wakes
// it. The wire's thread does not yield (`is_guest`).

#include "comm/comm.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <sched.h>

enum { SPINS = 40, YIELDS = 10 };
static const double nap = 0.05; // longest sleep before the clock is read again

static tt_status check(const tt_comm *comm, const tt_msg *msg)
{
    if (msg->peer < 0 || msg->peer >= comm->size || msg->bytes < 0)
        return tt_fail(
            TT_ERR_ARG, "rank %d: a message of %lld bytes for rank %d of %d",
            comm->rank, (long long)msg->bytes, msg->peer, comm->size);
    return TT_OK;
}

tt_status tt_comm_send(tt_comm *comm, tt_msg *msg)
{
    TT_TRY(check(comm, msg));
    msg->is_done = false;
    msg->moved = 0;
    comm->stats.sent_messages++;
    comm->stats.sent_bytes += msg->bytes;
    return comm->def->send(comm, msg);
}

tt_status tt_comm_receive(tt_comm *comm, tt_msg *msg)
{
    TT_TRY(check(comm, msg));
    msg->is_done = false;
    msg->moved = 0;
    comm->stats.received_messages++;
    comm->stats.received_bytes += msg->bytes;
    return comm->def->receive(comm, msg);
}

static const tt_msg *first_open(tt_msg *const *msgs, int n)
{
    for (int i = 0; i < n; i++)
        if (!msgs[i]->is_done)
            return msgs[i];
    return NULL;
}

static tt_status too_late(const tt_comm *comm, const tt_msg *msg,
                          double seconds)
{
    return tt_fail(TT_ERR_TIMEOUT,
                   "rank %d waited %.1f s for rank %d (message %d, %lld of "
                   "%lld bytes moved)",
                   comm->rank, seconds, msg->peer, msg->tag,
                   (long long)msg->moved, (long long)msg->bytes);
}

// Seconds between two looks of a rank that runs. If more have passed, this process was
// stopped itself, perhaps with all others (Ctrl-Z), and nobody is late yet.
static const double stopped = 1;

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

double tt_comm_idle(tt_comm *comm, double since)
{
    const double waited = since > 0 ? tt_clock_seconds() - since : 0;
    if (comm->def->idle == NULL)
        return waited;
    const double idle = comm->def->idle(comm, since);
    return idle < waited ? idle : waited;
}

void tt_comm_rested(tt_comm *comm, tt_rest *rest)
{
    if (rest->told > 0)
        (void)tt_comm_idle(comm, 0);
    *rest = (tt_rest){0};
}

double tt_comm_rest(tt_comm *comm, tt_rest *rest)
{
    if (comm->meanwhile != NULL && comm->meanwhile(comm->meanwhile_user)) {
        tt_comm_rested(comm, rest);
        return 0;
    }
    rest->turns++;
    if (rest->turns <= SPINS) {
        relax();
        return 0;
    }
    if (rest->turns <= SPINS + YIELDS && !comm->is_guest) {
        (void)sched_yield();
        return 0;
    }
    const double now = tt_clock_seconds();
    const bool was_stopped = now - rest->looked > stopped && rest->looked > 0;
    rest->looked = now;
    rest->since = rest->since == 0 || was_stopped ? now : rest->since;
    if (rest->since < comm->stirred)
        rest->since = comm->stirred;
    if (comm->is_asking) {
        rest->idle = now - rest->since;
    } else if (rest->told == 0 || now - rest->told >= nap) {
        rest->told = now;
        rest->idle = tt_comm_idle(comm, rest->since);
    }
    if (rest->idle <= comm->deadline)
        comm->def->doze(comm, nap);
    return rest->idle;
}

tt_status tt_comm_turn(tt_comm *comm, const tt_msg *open, tt_rest *rest)
{
    bool moved = false;
    TT_TRY(comm->def->progress(comm, &moved));
    if (moved) {
        tt_comm_rested(comm, rest);
        return TT_OK;
    }
    const double waited = tt_comm_rest(comm, rest);
    return waited > comm->deadline ? too_late(comm, open, waited) : TT_OK;
}

static tt_status wait_for(tt_comm *comm, tt_msg *const *msgs, int n,
                          tt_rest *rest)
{
    const tt_msg *open = NULL;
    while ((open = first_open(msgs, n)) != NULL)
        TT_TRY(tt_comm_turn(comm, open, rest));
    return TT_OK;
}

tt_status tt_comm_wait(tt_comm *comm, tt_msg *const *msgs, int n)
{
    const double start = tt_clock_seconds();
    tt_rest rest = {0};
    const tt_status status = wait_for(comm, msgs, n, &rest);
    tt_comm_rested(comm, &rest);
    comm->stats.wait_seconds += tt_clock_seconds() - start;
    if (status != TT_OK)
        comm->def->abandon(comm);
    return status;
}

tt_status tt_comm_swap(tt_comm *comm, tt_msg *out, tt_msg *in)
{
    tt_msg *msgs[2];
    int n = 0;
    tt_status status = TT_OK;
    if (in != NULL) {
        msgs[n++] = in;
        status = tt_comm_receive(comm, in);
    }
    if (out != NULL && status == TT_OK) {
        msgs[n++] = out;
        status = tt_comm_send(comm, out);
    }
    if (status != TT_OK) {
        comm->def->abandon(comm);
        return status;
    }
    return tt_comm_wait(comm, msgs, n);
}

void tt_comm_wake(tt_comm *comm)
{
    if (comm->def->wake != NULL)
        comm->def->wake(comm);
}

void *tt_comm_alloc(tt_comm *comm, int64_t bytes)
{
    return comm->def->alloc == NULL ? NULL : comm->def->alloc(comm, bytes);
}

void tt_comm_showed(tt_comm *comm, int64_t bytes)
{
    comm->stats.sent_messages++;
    comm->stats.sent_bytes += bytes;
}

void tt_comm_looked(tt_comm *comm, int64_t bytes)
{
    comm->stats.received_messages++;
    comm->stats.received_bytes += bytes;
}

bool tt_comm_has_native(const tt_comm *comm, const struct tt_coll_call *call)
{
    return comm->def->has_native != NULL && comm->def->has_native(comm, call);
}

tt_status tt_comm_native(tt_comm *comm, const struct tt_coll_call *call)
{
    const double start = tt_clock_seconds();
    const tt_status status = comm->def->native(comm, call);
    comm->stats.wait_seconds += tt_clock_seconds() - start;
    if (status != TT_OK)
        comm->def->abandon(comm);
    return status;
}

void *tt_comm_room(tt_comm *comm, tt_comm_use use, int64_t bytes)
{
    tt_comm_space *room = &comm->room[use];
    if (bytes <= room->bytes)
        return room->data;
    tt_free(room->data);
    room->data = tt_alloc(bytes);
    room->bytes = room->data != NULL ? bytes : 0;
    return room->data;
}

void tt_comm_close(tt_comm *comm)
{
    if (comm == NULL)
        return;
    for (int i = 0; i < TT_COMM_ROOMS; i++)
        tt_free(comm->room[i].data);
    comm->def->close(comm);
}
