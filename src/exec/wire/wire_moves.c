// wire_moves - messages from one rank to another, which hold up nothing.
//
// The problem. In a pipeline a rank posts the receive of an activation long before its
// neighbour has computed it. If the thread waited for it, everything after it in the
// queue would wait too: a gradient that the neighbour needs first, say. Both ranks would
// then wait for each other for ever.
//
// The idea. A flight of moves is only posted. Its messages are *open* until they are done;
// the thread moves them along whatever else it does, and sleeps when there is nothing to
// do. So any number of moves can be under way beside each other and beside one collective.
//
//   queue      m0  c0  m1  m2           m: moves, c: a collective
//   thread     m0 posted, c0 begins ... waits for a peer ... goes on ... over
//                                         ^ m1 posted meanwhile (tt__wire_meanwhile)
//   open       m0 ..................| m1 .............|
//
// Order. Moves of two ranks may be posted in any order: they are matched by what they are
// (wire_inbox.c). But collectives match by position. Hence a move is not taken up before a
// collective in which the same peer takes part, and such a collective waits until what was
// wanted of its members before it has come, and what is to be sent to them has left. All
// others may overtake.
//
// A rank that only has open moves while its executor computes is a rank that works: its
// deadline does not run. It runs while the executor waits for a flight.
//
// Operands in a device's memory go the same way, in more phases: wire_device_moves.c.
//
//   cost    a post wakes the thread: one futex. Memory: none but the message in the leg

#include "exec/wire/wire_state.h"
#include "ops/ops.h"

#include <string.h>

static const double nap = 0.05;    // longest sleep; messages and posts end it
static const double glance = 2e-5; // between two looks at a device

// ---- order ---------------------------------------------------------------

// The rank that a leg's only message goes to or comes from; -1: none.
int32_t tt__move_peer(const tt__wire_leg *leg)
{
    const tt_traffic_site *x = &leg->x;
    if (tt_traffic_site_sends(x))
        return tt_traffic_site_rank(x, (int32_t)x->p->to_coord);
    if (tt_traffic_site_receives(x))
        return tt_traffic_site_rank(x, (int32_t)x->p->from_coord);
    return -1;
}

static bool leg_has(const tt__wire_leg *leg, int32_t rank)
{
    const tt_traffic_site *x = &leg->x;
    if (leg->way->alone != NULL)
        return false;
    if (x->kind->way == TT_TRAFFIC_MOVE)
        return tt__move_peer(leg) == rank;
    for (int32_t i = 0; i < x->size; i++)
        if (tt_traffic_site_has(x, i) && tt_traffic_site_rank(x, i) == rank)
            return true;
    return false;
}

// Whether this rank talks to `rank` in a job, over the host's transport; in calls of the
// host to all.
static bool job_has(const tt__wire_job *job, int32_t rank)
{
    bool has = job->plan == NULL;
    if (!has && job->plan->is_linked)
        return false;
    for (int32_t i = 0; i < job->n_legs && !has; i++)
        has = leg_has(&job->leg[i], rank);
    return has;
}

static bool have_peer(const tt__wire_job *move, const tt__wire_job *earlier)
{
    for (int32_t i = 0; i < move->n_legs; i++) {
        const int32_t peer = tt__move_peer(&move->leg[i]);
        if (peer >= 0 && job_has(earlier, peer))
            return true;
    }
    return false;
}

// By the collective that runs, or by what comes earlier in the queue.
static bool is_held_back(const tt_comm_wire *w, const tt__wire_job *move)
{
    if (w->current != NULL && have_peer(move, w->current))
        return true;
    for (const tt__wire_job *j = w->first; j != move; j = j->next)
        if (have_peer(move, j))
            return true;
    return false;
}

// Takes the first move that may go out of the queue; NULL: there is none.
static tt__wire_job *take_move(tt_comm_wire *w)
{
    tt__wire_job *before = NULL;
    for (tt__wire_job *j = w->first; j != NULL; before = j, j = j->next) {
        if (!j->is_move || is_held_back(w, j))
            continue;
        if (before == NULL)
            w->first = j->next;
        else
            before->next = j->next;
        if (w->last == j)
            w->last = before;
        (void)atomic_fetch_sub(&w->n_moves, 1);
        return j;
    }
    return NULL;
}

// ---- messages --------------------------------------------------------------

static tt_status post(tt_comm_wire *w, tt__wire_job *job, tt__wire_leg *leg)
{
    const tt_traffic_site *x = &leg->x;
    if (job->plan->device != NULL)
        return tt__device_move_open(w, job, leg);
    const bool sends = tt_traffic_site_sends(x);
    leg->head.is_done = true;
    leg->msg = (tt_msg){.peer = tt__move_peer(leg),
                        .tag = x->tag,
                        .data = sends ? (void *)(uintptr_t)leg->in : leg->out,
                        .bytes = sends ? x->in_bytes : x->out_bytes};
    leg->sent = leg->envelope =
        (tt__wire_envelope){x->tag, job->micro, leg->msg.bytes, -1, x->node};
    if (sends)
        return tt__inbox_send(w->carrier.comm, leg);
    if (tt_traffic_site_receives(x))
        return tt__inbox_receive(w, leg);
    leg->msg.is_done = true;
    if (x->out_bytes > 0) // from here to here
        memcpy(leg->out, leg->in, (size_t)x->out_bytes);
    return TT_OK;
}

static const tt_msg *undone(const tt__wire_job *job)
{
    for (int32_t i = 0; i < job->n_legs; i++)
        if (!job->leg[i].msg.is_done || !job->leg[i].head.is_done)
            return &job->leg[i].msg;
    return NULL;
}

static bool is_done(const tt__wire_job *job)
{
    return job->plan->device != NULL ? tt__device_moves_are_over(job)
                                     : undone(job) == NULL;
}

static bool is_any_done(const tt_comm_wire *w)
{
    for (const tt__wire_job *j = w->open; j != NULL; j = j->next)
        if (is_done(j))
            return true;
    return false;
}

// Takes those whose messages are done out of the list; with the lock.
static void retire(tt_comm_wire *w)
{
    tt__wire_job **at = &w->open;
    while (*at != NULL) {
        tt__wire_job *job = *at;
        if (!is_done(job)) {
            at = &job->next;
            continue;
        }
        *at = job->next;
        job->is_open = false;
        job->is_done = true;
        tt__wire_flight_over(w, job);
        pthread_cond_signal(&w->has_done);
    }
}

void tt__moves_open(tt_comm_wire *w, tt__wire_job *job)
{
    const int64_t step = w->step;
    tt_status status = TT_OK;
    tt__wire_flight_begun(w, job);
    job->since = job->begun;
    job->is_open = true;
    job->next = w->open;
    w->open = job;
    for (int32_t i = 0; i < job->n_legs;
         i++) { // none is done before it is posted
        job->leg[i].msg.is_done = false;
        job->leg[i].phase = TT__MOVE_WAITS;
    }
    pthread_mutex_unlock(&w->lock);
    for (int32_t i = 0; i < job->n_legs && status == TT_OK; i++) {
        tt__wire_tell(w, &job->leg[i], step);
        status = post(w, job, &job->leg[i]);
    }
    pthread_mutex_lock(&w->lock);
    if (status != TT_OK)
        tt__wire_failed(w, tt_fail_context(status, "%s", tt_op_move.name));
    retire(w);
}

static bool awaits_device(const tt_comm_wire *w)
{
    for (const tt__wire_job *j = w->open; j != NULL; j = j->next)
        if (j->plan->device != NULL && tt__device_moves_await(j))
            return true;
    return false;
}

// Nobody waits for them: sleeps until a message comes or something is posted. A device
// wakes nobody, so it is looked at often.
static tt_status stand_by(tt_comm_wire *w, bool on_device)
{
    tt_comm *comm = w->carrier.comm;
    bool moved = false;
    tt_comm_rested(comm, &w->rest);
    TT_TRY(comm->def->progress(comm, &moved));
    if (!moved)
        comm->def->doze(comm, on_device ? glance : nap);
    return TT_OK;
}

// What has arrived, and what devices have done.
static tt_status go_on(tt_comm_wire *w, bool *moved_out)
{
    TT_TRY(tt__inbox_sort(w, moved_out));
    for (tt__wire_job *j = w->open; j != NULL; j = j->next)
        if (j->plan->device != NULL)
            TT_TRY(tt__device_moves_go_on(w, j, moved_out));
    return TT_OK;
}

bool tt__moves_settle(tt_comm_wire *w)
{
    bool moved = false;
    const tt_status status = go_on(w, &moved);
    if (status != TT_OK)
        tt__wire_failed(w, tt_fail_context(status, "%s", tt_op_move.name));
    retire(w);
    return moved;
}

void tt__moves_turn(tt_comm_wire *w)
{
    const bool is_awaited = w->n_waiting > 0;
    if (tt__moves_settle(w) || w->open == NULL || w->status != TT_OK)
        return;
    const tt_msg *first = undone(w->open);
    const bool on_device = awaits_device(w);
    pthread_mutex_unlock(&w->lock);
    bool moved = false;
    tt_status status = is_awaited && first != NULL && !on_device
                           ? tt_comm_turn(w->carrier.comm, first, &w->rest)
                           : stand_by(w, on_device);
    if (status == TT_OK)
        status = go_on(w, &moved);
    pthread_mutex_lock(&w->lock);
    retire(w);
    if (w->open == NULL)
        tt_comm_rested(w->carrier.comm, &w->rest);
    if (status != TT_OK)
        tt__wire_failed(w, tt_fail_context(status, "%s", tt_op_move.name));
}

void tt__moves_drop(tt_comm_wire *w)
{
    tt_comm *comm = w->carrier.comm;
    if (w->open == NULL)
        return;
    comm->def->abandon(comm);
    tt__inbox_clear(w);
    while (w->open != NULL) {
        tt__wire_job *job = w->open;
        w->open = job->next;
        job->is_open = false;
        tt__wire_flight_over(w, job);
    }
    tt_comm_rested(comm, &w->rest);
    pthread_cond_signal(&w->has_done);
}

bool tt__moves_overtake(tt_comm_wire *w)
{
    tt__wire_job *job = NULL;
    bool any = false;
    while (w->status == TT_OK && (job = take_move(w)) != NULL) {
        tt__moves_open(w, job);
        any = true;
    }
    return any;
}

bool tt__moves_keep_waiting(tt_comm_wire *w, const tt__wire_job *job)
{
    if (w->open == NULL || w->status != TT_OK || w->is_closing)
        return false;
    for (int32_t r = 0; r < w->carrier.comm->size; r++)
        if (!tt__inbox_is_idle(w, r) && job_has(job, r))
            return true;
    for (const tt__wire_job *j = w->open; j != NULL; j = j->next)
        if (j->plan->device != NULL && tt__device_moves_are_unsent(j) &&
            have_peer(j, job))
            return true;
    return false;
}

// Within a wait of a collective. Some of these (a transport's own) do not move messages,
// so that is done here. A failure is kept; the collective that waits fails by itself.
bool tt__wire_meanwhile(void *wire)
{
    tt_comm_wire *w = wire;
    if (w->current == NULL ||
        (w->open == NULL && atomic_load(&w->n_moves) == 0))
        return false;
    pthread_mutex_lock(&w->lock);
    bool moved = tt__moves_overtake(w);
    pthread_mutex_unlock(&w->lock);
    if (w->open == NULL)
        return moved;
    bool more = false;
    tt_status status = w->carrier.comm->def->progress(w->carrier.comm, &more);
    if (status == TT_OK)
        status = go_on(w, &moved);
    if (status != TT_OK || is_any_done(w)) {
        pthread_mutex_lock(&w->lock);
        if (status != TT_OK)
            tt__wire_failed(w, tt_fail_context(status, "%s", tt_op_move.name));
        retire(w);
        pthread_mutex_unlock(&w->lock);
    }
    return moved || more;
}
