// wire - the host's side: flights are handed to the thread and waited for.
//
// The problem. A collective needs somebody who sends, receives and adds while kernels
// run; transports do nothing by themselves. And a transport is used by one thread at
// a time.
//
// The idea. One thread per rank owns the transport. The executor hands it flights and
// goes on; it waits only where the plan says that a result is needed.
//
//   executor's thread        lock and queue           the wire's thread
//   begin(f0)   ----------->  [ f0 ]      ---------->  f0: all-reduce, by messages
//   steps ...                 [ f1 ]                   f1
//   finish(f0)  <-----------  f0 is done
//   host's call ----------->  [ call ]                 hashes, checkpoints, stopping
//
// Collectives are carried out one after another, in the order in which they begin;
// moves are only posted, and are under way beside them. The plan fixes that order, so it
// is the same on every rank, and nothing is negotiated:
// which bytes go where follows from types, mesh and rank (traffic/site.h). A flight that
// needs no peer is done here at once.
//
//   wire           this file: what the executor and the host call
//   wire_plan      what is worked out once, when a plan is bound
//   wire_thread    the thread, and how work comes to it
//   wire_moves     messages from one rank to another, which hold up nothing
//   wire_inbox     and are matched by what they are
//   wire_carrier   its memory, and calls of the host
//   wire_ops       each way of communicating, over messages and collectives
//   wire_stage     operands of a device, by way of the host's memory
//   wire_device_moves          moves of a device's operands, in phases
//   wire_device_comm, _ops     operands of devices that reach each other (NCCL)
//
// With a device there are two events per flight: its operands are ready (noted in the
// queue of steps, followed by the wire's queue), and its results have landed (the other
// way round). So the host does not wait for the device to begin a flight.
//
//   cost    a lock and a wake-up per flight. The thread sleeps without work, for a rank
//           may have one core only
//   errors  the first that fails ends the wire: later calls return the same sentence

#include "exec/wire/wire.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "exec/wire/wire_state.h"

#include <stdio.h>
#include <string.h>

enum { EVENTS = 8192 };

// ---- what the executor calls -----------------------------------------------

// `args` has the addresses of every step, in the backend's memory.
static tt_status bind(void *ctx, const tt_plan *plan, tt_backend *backend,
                      const tt_args *args, void **bound_out)
{
    tt_comm_wire *w = ctx;
    tt__wire_plan *bound = NULL;
    TT_TRY(tt_comm_wire_settle(w, NULL)); // the carrier changes
    TT_TRY(tt__wire_plan_make(&w->carrier, plan, args, &bound));
    tt_status status = TT_OK;
    if (backend->def->memory != NULL) {
        bound->device = backend;
        status = tt__device_groups_bind(w, bound);
        if (status == TT_OK)
            status = tt__wire_stage_bind(&w->carrier, bound);
        if (status != TT_OK && bound->is_linked)
            tt__device_groups_unbind(w, backend);
    }
    if (status != TT_OK) {
        tt__wire_plan_free(bound);
        return status;
    }
    *bound_out = bound;
    return TT_OK;
}

static void unbind(void *ctx, void *bound)
{
    tt__wire_plan *plan = bound;
    tt__wire_thread_release(ctx, plan);
    if (plan->is_linked)
        tt__device_groups_unbind(ctx, plan->device);
    tt__wire_plan_free(plan);
}

// On a device this only puts work into the queue of steps, which runs it in order.
static tt_status carry_here(const tt__wire_job *job)
{
    tt_backend *device = job->plan->device;
    for (int32_t i = 0; i < job->n_legs; i++) {
        const tt__wire_leg *leg = &job->leg[i];
        TT_TRY(device != NULL ? leg->way->alone(device, TT_QUEUE_STEPS, leg)
                              : leg->way->run(NULL, leg, leg->in, leg->out));
    }
    return TT_OK;
}

// A flight without peers is done here at once: handing it to the thread would cost more
// than the copy. All others get a number. Ranks begin the same flights in the same
// order, so equal numbers mean the same flight, which is how traces of ranks are
// joined.
static tt_status begin(void *ctx, void *bound, int32_t flight,
                       const tt_order *order)
{
    tt_comm_wire *w = ctx;
    tt__wire_plan *plan = bound;
    tt__wire_job *job = tt__wire_plan_job(plan, flight, order->slot);
    if (job->is_local) {
        job->begun = tt_clock_seconds();
        TT_TRY(carry_here(job));
        job->ended = tt_clock_seconds();
        return TT_OK;
    }
    if (plan->device != NULL)
        TT_TRY(plan->device->def->queue->note(plan->device, TT_QUEUE_STEPS,
                                              tt__wire_stage_ready(job)));
    job->number = w->n_flights++;
    job->micro = order->micro;
    return tt__wire_job_post(w, job);
}

static void keep_event(tt_comm_wire *w, const tt__wire_job *job, double asked,
                       double waited)
{
    if (w->n_events == EVENTS) { // the older half goes
        w->n_events /= 2;
        memmove(w->event, w->event + w->n_events,
                (size_t)w->n_events * sizeof(*w->event));
    }
    const tt_flight *flight = &job->plan->plan->flight[job->flight];
    w->event[w->n_events++] = (tt_wire_event){.number = job->number,
                                              .name = flight->name,
                                              .ready = job->ready,
                                              .begun = job->begun,
                                              .ended = job->ended,
                                              .asked = asked,
                                              .waited = waited,
                                              .bytes = flight->bytes};
}

// With a device, "finished" means that the collective is queued, not that its result is
// there: the queue of steps follows the event `landed`, and the host goes on.
static tt_status finish(void *ctx, void *bound, int32_t flight,
                        const tt_order *order, tt_flight_times *times_out)
{
    tt_comm_wire *w = ctx;
    const tt__wire_plan *plan = bound;
    const tt__wire_job *job = tt__wire_plan_job(plan, flight, order->slot);
    if (!job->is_local) {
        double busy = 0;
        const double start = tt_clock_seconds();
        TT_TRY(tt__wire_job_wait(w, job, &busy));
        if (plan->device != NULL)
            TT_TRY(plan->device->def->queue->follow(
                plan->device, TT_QUEUE_STEPS, tt__wire_stage_landed(job)));
        const double waited = tt_clock_seconds() - start;
        w->exposed += busy;
        if (w->is_tracing)
            keep_event(w, job, start, waited);
    }
    *times_out = (tt_flight_times){job->begun, job->ended};
    return TT_OK;
}

static bool is_over(void *ctx, void *bound, int32_t flight,
                    const tt_order *order, double *since_out)
{
    const tt__wire_plan *plan = bound;
    const tt__wire_job *job = tt__wire_plan_job(plan, flight, order->slot);
    const bool is_done = job->is_local || tt__wire_job_is_done(ctx, job);
    *since_out = is_done ? job->ended : 0;
    return is_done;
}

static tt_status wait_any(void *ctx, int64_t *n_over_io)
{
    tt_comm_wire *w = ctx;
    double busy = 0;
    TT_TRY(tt__wire_wait_any(w, n_over_io, &busy));
    w->exposed += busy;
    return TT_OK;
}

static void *alloc_shared(void *ctx, int64_t bytes)
{
    const tt_comm_wire *w = ctx;
    return tt_comm_alloc(w->carrier.comm, bytes);
}

// ---- opening ---------------------------------------------------------------

static tt_status start(tt_comm_wire *w, tt_comm *comm,
                       const tt_wire_options *options)
{
    TT_TRY(tt__carrier_init(&w->carrier, comm, options));
    if (options->trace) {
        w->event = tt_alloc(EVENTS * (int64_t)sizeof(*w->event));
        if (w->event == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory to trace a wire");
    }
    w->inbox = tt_alloc(comm->size * (int64_t)sizeof(*w->inbox));
    if (w->inbox == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a wire");
    w->is_tracing = options->trace;
    w->before.messages = w->messages = comm->stats.sent_messages;
    w->before.bytes = w->bytes = comm->stats.sent_bytes;
    // The executor computes on the same cores, so waits sleep instead of yielding.
    comm->is_guest = true;
    comm->meanwhile = tt__wire_meanwhile;
    comm->meanwhile_user = w;
    return tt__wire_thread_start(w);
}

tt_status tt_comm_wire_open(tt_comm *comm, const tt_wire_options *options,
                            tt_comm_wire **wire_out)
{
    static const tt_wire_options plain = {0};
    tt_comm_wire *w = tt_alloc(sizeof(*w));
    if (w == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a wire");
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_cond_init(&w->has_job, NULL);
    (void)pthread_cond_init(&w->has_done, NULL);
    w->step = -1;
    w->wire = (tt_wire){.bind = bind,
                        .unbind = unbind,
                        .begin = begin,
                        .finish = finish,
                        .is_over = is_over,
                        .wait_any = wait_any,
                        .alloc = alloc_shared,
                        .ctx = w};
    const tt_status status = start(w, comm, options != NULL ? options : &plain);
    if (status != TT_OK) {
        tt_comm_wire_close(w);
        return status;
    }
    *wire_out = w;
    return TT_OK;
}

// The lock is what makes the thread's last use of it happen before.
tt_comm *tt_comm_wire_borrow(tt_comm_wire *wire)
{
    tt_comm *comm = wire->carrier.comm;
    pthread_mutex_lock(&wire->lock);
    comm->meanwhile = NULL;
    pthread_mutex_unlock(&wire->lock);
    return comm;
}

void tt_comm_wire_give_back(tt_comm_wire *wire)
{
    pthread_mutex_lock(&wire->lock);
    wire->carrier.comm->meanwhile = tt__wire_meanwhile;
    wire->messages = wire->carrier.comm->stats.sent_messages;
    wire->bytes = wire->carrier.comm->stats.sent_bytes;
    pthread_mutex_unlock(&wire->lock);
}

void tt_comm_wire_close(tt_comm_wire *wire)
{
    if (wire == NULL)
        return;
    tt__wire_thread_stop(wire);
    if (wire->carrier.comm != NULL)
        wire->carrier.comm->meanwhile = NULL;
    (void)pthread_cond_destroy(&wire->has_done);
    (void)pthread_cond_destroy(&wire->has_job);
    (void)pthread_mutex_destroy(&wire->lock);
    if (wire->carrier.comm != NULL)
        tt__inbox_clear(wire);
    tt_free(wire->inbox);
    tt__carrier_fini(&wire->carrier);
    tt_free(wire->event);
    tt_free(wire);
}

// ---- for the host ----------------------------------------------------------

const tt_wire *tt_comm_wire_of(tt_comm_wire *wire)
{
    return &wire->wire;
}

int32_t tt_comm_wire_rank(const tt_comm_wire *wire)
{
    return wire->carrier.comm->rank;
}

int32_t tt_comm_wire_size(const tt_comm_wire *wire)
{
    return wire->carrier.comm->size;
}

// Calls of the host go through the same queue as flights. So they come after all
// flights that were begun before them, on every rank, and need no lock around the
// transport.
tt_status tt_comm_wire_call(tt_comm_wire *wire, const char *what,
                            const tt_coll_call *call)
{
    wire->call = (tt__wire_job){.call = call, .what = what};
    double busy = 0;
    tt_status status = tt__wire_job_post(wire, &wire->call);
    if (status == TT_OK)
        status = tt__wire_job_wait(wire, &wire->call, &busy);
    return status == TT_OK ? TT_OK : tt_fail_context(status, "%s", what);
}

tt_status tt_comm_wire_post(tt_comm_wire *wire, const char *what,
                            const tt_coll_call *call)
{
    TT_TRY(tt_comm_wire_settle(wire, NULL));
    wire->posted = *call;
    wire->later = (tt__wire_job){.call = &wire->posted, .what = what};
    TT_TRY(tt__wire_job_post(wire, &wire->later));
    wire->is_posted = true;
    return TT_OK;
}

tt_status tt_comm_wire_settle(tt_comm_wire *wire, double *seconds_out)
{
    const tt__wire_job *job = &wire->later;
    double busy = 0;
    if (!wire->is_posted)
        return TT_OK;
    wire->is_posted = false;
    const tt_status status = tt__wire_job_wait(wire, job, &busy);
    if (seconds_out != NULL)
        *seconds_out = job->ended - job->begun;
    return status == TT_OK ? TT_OK : tt_fail_context(status, "%s", job->what);
}

// A transport never gets its memory back, so a block that was taken back is kept for
// the next one who asks.
void *tt_comm_wire_lend(tt_comm_wire *wire, tt_wire_use use, int64_t bytes)
{
    const int64_t page = 4096;
    tt__wire_loan *loan = &wire->loan[use];
    if (loan->is_lent)
        return NULL;
    if (loan->bytes < bytes) {
        char *block = tt_comm_alloc(wire->carrier.comm, bytes + 2 * page);
        if (block == NULL)
            return NULL;
        loan->block =
            block + (page - (int64_t)((uintptr_t)block % 4096)) % page;
        loan->bytes = bytes;
    }
    loan->is_lent = true;
    return loan->block;
}

void tt_comm_wire_take_back(tt_comm_wire *wire, tt_wire_use use)
{
    wire->loan[use].is_lent = false;
}

bool tt_comm_wire_can_lend(const tt_comm_wire *wire)
{
    return wire->carrier.comm->def->alloc != NULL;
}

bool tt_comm_wire_shows_memory(const tt_comm_wire *wire)
{
    return wire->carrier.comm->def->shows_memory;
}

void tt_comm_wire_fail(tt_comm_wire *wire, tt_status status,
                       const char *message)
{
    pthread_mutex_lock(&wire->lock);
    if (wire->status == TT_OK) {
        wire->status = status;
        snprintf(wire->message, sizeof wire->message, "%s", message);
        tt__wire_queue_clear(wire);
        tt_comm_wake(wire->carrier.comm);
    }
    pthread_mutex_unlock(&wire->lock);
}

void tt_comm_wire_exact(tt_comm_wire *wire)
{
    pthread_mutex_lock(&wire->lock);
    wire->carrier.rules.is_exact = true;
    pthread_mutex_unlock(&wire->lock);
}

void tt_comm_wire_by_devices(tt_comm_wire *wire, bool wanted)
{
    pthread_mutex_lock(&wire->lock);
    wire->carrier.links.is_wanted = wanted;
    pthread_mutex_unlock(&wire->lock);
}

void tt_comm_wire_step(tt_comm_wire *wire, int64_t step)
{
    pthread_mutex_lock(&wire->lock);
    wire->step = step;
    pthread_mutex_unlock(&wire->lock);
}

void tt_comm_wire_stats(tt_comm_wire *wire, bool reset,
                        tt_wire_stats *stats_out)
{
    const tt_wire_stats *old = &wire->before;
    pthread_mutex_lock(&wire->lock);
    const tt_wire_stats all = {.messages = wire->messages,
                               .bytes = wire->bytes,
                               .busy_seconds = wire->busy,
                               .exposed_seconds = wire->exposed,
                               .flights = wire->n_flights,
                               .packet_bytes = wire->packet_bytes};
    pthread_mutex_unlock(&wire->lock);
    *stats_out = (tt_wire_stats){
        .messages = all.messages - old->messages,
        .bytes = all.bytes - old->bytes,
        .busy_seconds = all.busy_seconds - old->busy_seconds,
        .exposed_seconds = all.exposed_seconds - old->exposed_seconds,
        .flights = all.flights - old->flights,
        .packet_bytes = all.packet_bytes - old->packet_bytes};
    if (reset)
        wire->before = all;
}

int64_t tt_comm_wire_events(const tt_comm_wire *wire, const tt_wire_event **out)
{
    *out = wire->event;
    return wire->n_events;
}
