// wire_device_moves - moves of operands in a device's memory, which hold up nothing.
//
// The problem. What a stage sends is made by kernels that are only queued, and what it
// receives may come while kernels still read the memory where it goes. If the thread
// waited for the device, or the device for a peer, one move would hold up all others.
//
// The idea. A move is in a phase, and the thread asks now and then what has come of it.
// Nothing is queued on the device before it can run at once, so that nothing queued
// waits for a peer.
//
//   sender     WAITS until steps have made it | LEAVES for the host | TRAVELS | over
//   receiver   TRAVELS to the host | WAITS until its place is free | copied to the device
//
// Each move has room of its own in the host's memory, in each slot, and each direction a
// queue of its own on the device.
//
// Devices that reach each other (links, NCCL) need no room. But such a library matches
// calls by position, and a call waits on the device for its peer's. So the two ranks first
// agree, by envelopes over the host's transport:
//
//   sender     WAITS | offers -------->      TRAVELS  | IN_LINE, ASKED_FOR, RUNS | over
//   receiver          wants, WAITS | takes it ------> | IN_LINE, ASKED_FOR, RUNS | over
//
// Each of a pair's two directions is a group with a queue of its own, which takes one call
// at a time. The receiver gives each taking a turn and says so in its envelope; both sides
// make their calls in turn. No call waits for another pair.
//
//   cost    a look at the device every 20 microseconds while it computes what is sent
//   memory  staged: each message once, pinned, in each slot (tt_wire_stage_bytes)

#include "base/clock.h"
#include "exec/wire/wire_state.h"

static bool is_linked(const tt__wire_leg *leg)
{
    return leg->room == NULL;
}

static tt_status is_over(const tt__wire_job *job, int64_t event, bool *over_out)
{
    tt_backend *device = job->plan->device;
    return device->def->queue->is_over(device, event, over_out);
}

// ---- opening -----------------------------------------------------------------

// What another plan received there must have left for the device; and what this one did
// the time before.
static tt_status claim_room(tt__carrier *c, const tt__wire_job *job)
{
    tt_backend *device = job->plan->device;
    if (c->stage.moved != job->plan)
        TT_TRY(tt__wire_stage_wait(c, device, TT__STAGE_BROUGHT));
    c->stage.moved = job->plan;
    return tt__wire_stage_wait(c, device, tt__wire_stage_landed(job));
}

// The receiver's envelope is wanted from now on.
tt_status tt__device_move_open(tt_comm_wire *w, const tt__wire_job *job,
                               tt__wire_leg *leg)
{
    const tt_traffic_site *x = &leg->x;
    const bool sends = tt_traffic_site_sends(x);
    const int64_t bytes = is_linked(leg) ? -1
                          : sends        ? x->in_bytes
                                         : x->out_bytes;
    leg->head.is_done = true;
    leg->msg = (tt_msg){.peer = tt__move_peer(leg),
                        .tag = x->tag,
                        .data = leg->room,
                        .bytes = bytes};
    leg->sent = leg->envelope =
        (tt__wire_envelope){x->tag, job->micro, leg->msg.bytes, -1, x->node};
    if (!is_linked(leg))
        TT_TRY(claim_room(&w->carrier, job));
    if (tt_traffic_site_receives(x))
        return tt__inbox_receive(w, leg);
    leg->msg.is_done = !sends;
    return TT_OK;
}

// ---- by way of the host --------------------------------------------------------

// From here to here is a copy on the device.
static tt_status leave(const tt__wire_job *job, tt__wire_leg *leg)
{
    tt_backend *device = job->plan->device;
    const tt_queue_def *queue = device->def->queue;
    const tt_traffic_site *x = &leg->x;
    char *to = tt_traffic_site_sends(x) ? leg->room : leg->out;
    if (x->in_bytes > 0 && to != NULL)
        TT_TRY(queue->copy(device, TT_QUEUE_OUT, to, leg->in, x->in_bytes));
    leg->phase = TT__MOVE_LEAVES;
    return queue->note(device, TT_QUEUE_OUT, tt__wire_stage_left(job, leg));
}

static tt_status arrive(const tt__wire_job *job, tt__wire_leg *leg)
{
    tt_backend *device = job->plan->device;
    const tt_queue_def *queue = device->def->queue;
    if (leg->x.out_bytes > 0)
        TT_TRY(queue->copy(device, TT_QUEUE_IN, leg->out, leg->room,
                           leg->x.out_bytes));
    leg->phase = TT__MOVE_IS_OVER;
    return queue->note(device, TT_QUEUE_IN, TT__STAGE_BROUGHT);
}

// ---- by links --------------------------------------------------------------------

// A call of a pair, when it is its turn: member 0 sends.
static tt_status ask(tt__carrier *c, tt__wire_leg *leg)
{
    if (leg->envelope.turn != leg->links->n_served)
        return TT_OK;
    const bool sends = tt_traffic_site_sends(&leg->x);
    const tt_device_coll call = {.kind = sends ? TT_DEVICE_COLL_SEND
                                               : TT_DEVICE_COLL_RECEIVE,
                                 .in = leg->in,
                                 .out = leg->out,
                                 .count = leg->x.count,
                                 .dtype = (tt_dtype)leg->x.fold.type,
                                 .peer = sends ? 1 : 0};
    leg->phase = TT__MOVE_IS_ASKED_FOR;
    return tt__device_groups_ask(c, leg, &call, leg->x.count > 0 ? 1 : 0);
}

// The sender says what it has, and wants to hear when it is taken.
static tt_status offer(tt_comm_wire *w, tt__wire_leg *leg)
{
    leg->phase = TT__MOVE_TRAVELS;
    TT_TRY(tt__inbox_send(w->carrier.comm, leg));
    leg->envelope.tag = -leg->sent.tag;
    return tt__inbox_receive(w, leg);
}

static tt_status take(tt_comm_wire *w, tt__wire_leg *leg)
{
    leg->sent.tag = -leg->envelope.tag;
    leg->sent.turn = leg->envelope.turn = leg->links->n_turns++;
    leg->phase = TT__MOVE_IS_IN_LINE;
    return tt__inbox_send(w->carrier.comm, leg);
}

// The library may take calls up later: an event is noted when it has.
static tt_status watch(const tt__carrier *c, const tt__wire_job *job,
                       tt__wire_leg *leg)
{
    tt_backend *device = job->plan->device;
    bool is_busy = false;
    TT_TRY(tt__device_groups_state(c, leg, &is_busy));
    if (is_busy)
        return TT_OK;
    leg->links->n_served++;
    leg->phase = TT__MOVE_RUNS;
    return device->def->device_comm->note(leg->links->links,
                                          tt__wire_stage_left(job, leg));
}

static tt_status stay(const tt__carrier *c, const tt__wire_job *job,
                      tt__wire_leg *leg)
{
    bool is_busy = false, is_done = false;
    TT_TRY(tt__device_groups_state(c, leg, &is_busy));
    TT_TRY(is_over(job, tt__wire_stage_left(job, leg), &is_done));
    if (is_done && leg->head.is_done)
        leg->phase = TT__MOVE_IS_OVER;
    return TT_OK;
}

// ---- phases ------------------------------------------------------------------------

// The device has come to the flight.
static tt_status begin(tt_comm_wire *w, const tt__wire_job *job,
                       tt__wire_leg *leg)
{
    if (!tt_traffic_site_receives(&leg->x))
        return is_linked(leg) && tt_traffic_site_sends(&leg->x)
                   ? offer(w, leg)
                   : leave(job, leg);
    if (!leg->msg.is_done)
        return TT_OK;
    return is_linked(leg) ? take(w, leg) : arrive(job, leg);
}

static tt_status has_left(tt_comm_wire *w, tt__wire_leg *leg)
{
    const bool sends = tt_traffic_site_sends(&leg->x);
    leg->phase = sends ? TT__MOVE_TRAVELS : TT__MOVE_IS_OVER;
    return sends ? tt__inbox_send(w->carrier.comm, leg) : TT_OK;
}

static tt_status has_travelled(tt__wire_leg *leg)
{
    if (!leg->msg.is_done || !leg->head.is_done)
        return TT_OK;
    leg->phase = is_linked(leg) ? TT__MOVE_IS_IN_LINE : TT__MOVE_IS_OVER;
    return TT_OK;
}

static tt_status go_on(tt_comm_wire *w, const tt__wire_job *job,
                       tt__wire_leg *leg)
{
    bool is_time = false;
    switch (leg->phase) {
    case TT__MOVE_WAITS:
        TT_TRY(is_over(job, tt__wire_stage_ready(job), &is_time));
        return is_time ? begin(w, job, leg) : TT_OK;
    case TT__MOVE_LEAVES:
        TT_TRY(is_over(job, tt__wire_stage_left(job, leg), &is_time));
        return is_time ? has_left(w, leg) : TT_OK;
    case TT__MOVE_TRAVELS:
        return has_travelled(leg);
    case TT__MOVE_IS_IN_LINE:
        return ask(&w->carrier, leg);
    case TT__MOVE_IS_ASKED_FOR:
        return watch(&w->carrier, job, leg);
    default:
        return stay(&w->carrier, job, leg);
    }
}

static tt_status check_patience(const tt_comm_wire *w, const tt__wire_job *job)
{
    enum { PATIENCE = 20 };
    const tt_comm *comm = w->carrier.comm;
    const double most = PATIENCE * comm->deadline;
    return !tt__device_moves_await(job) ||
                   tt_clock_seconds() - job->since <= most
               ? TT_OK
               : tt_fail(TT_ERR_TIMEOUT,
                         "the device of rank %d has not come to it in %.0f s",
                         comm->rank, most);
}

// What lands is followed by the steps; all of it was queued before.
tt_status tt__device_moves_go_on(tt_comm_wire *w, tt__wire_job *job,
                                 bool *moved_out)
{
    tt_backend *device = job->plan->device;
    bool has_changed = false;
    if (tt__device_moves_are_over(job))
        return TT_OK;
    for (int32_t i = 0; i < job->n_legs; i++) {
        tt__wire_leg *leg = &job->leg[i];
        const tt__wire_phase before = leg->phase;
        if (before == TT__MOVE_IS_OVER)
            continue;
        TT_TRY(go_on(w, job, leg));
        has_changed |= leg->phase != before;
    }
    if (!has_changed)
        return check_patience(w, job);
    *moved_out = true;
    job->since = tt_clock_seconds();
    return tt__device_moves_are_over(job)
               ? device->def->queue->note(device, TT_QUEUE_IN,
                                          tt__wire_stage_landed(job))
               : TT_OK;
}

bool tt__device_moves_are_over(const tt__wire_job *job)
{
    for (int32_t i = 0; i < job->n_legs; i++)
        if (job->leg[i].phase != TT__MOVE_IS_OVER)
            return false;
    return true;
}

bool tt__device_moves_await(const tt__wire_job *job)
{
    for (int32_t i = 0; i < job->n_legs; i++) {
        const tt__wire_leg *leg = &job->leg[i];
        const bool is_wanted =
            tt_traffic_site_receives(&leg->x) && !leg->msg.is_done;
        if (leg->phase != TT__MOVE_TRAVELS && leg->phase != TT__MOVE_IS_OVER &&
            !(leg->phase == TT__MOVE_WAITS && is_wanted))
            return true;
    }
    return false;
}

bool tt__device_moves_are_unsent(const tt__wire_job *job)
{
    for (int32_t i = 0; i < job->n_legs; i++) {
        const tt__wire_leg *leg = &job->leg[i];
        if (tt_traffic_site_sends(&leg->x) && leg->phase < TT__MOVE_TRAVELS)
            return true;
    }
    return false;
}
