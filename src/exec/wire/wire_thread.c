// wire_thread - the thread that carries out flights, and how work comes to it.
//
// The queue is a list of jobs under one lock. There are two conditions: the
// thread waits for `has_job`, the host for `has_done`. The lock is released while a job
// runs, so the host can post the next flight meanwhile.
//
//   host        post(j): queue, signal has_job      wait(j): until is_done or an error
//   thread      take j, unlock, carry, lock, is_done, signal has_done
//
// The thread sleeps while there is nothing to do and never polls the queue, because a
// rank may have one core only and that core belongs to the kernels.
//
// No wait lasts for ever. The host waits for the thread without a deadline of its own,
// but each wait of the thread for a peer has one. When a job fails, the thread keeps
// its message, empties the queue and carries out nothing more: later flights would send
// bytes that peers do not expect. Every later call returns that first message.

#include "base/clock.h"
#include "base/thread.h"
#include "exec/wire/wire_state.h"

#include <stdio.h>

// Writes into the journal what is about to happen. If this rank dies, the journal is
// what the others can say about it. Operators are counted by kind ("all_reduce 17");
// calls of the host have no kind and are not counted.
static void tell(tt_comm_wire *w, int kind, const char *what, const char *where,
                 int64_t step)
{
    tt_journal_event event = {.seconds = tt_clock_seconds(),
                              .step = step,
                              .number = kind < 0 ? 0 : ++w->n_of_kind[kind]};
    tt_journal_text(&event, what, where);
    tt_journal_add(w->carrier.comm->journal, &event);
}

void tt__wire_tell(tt_comm_wire *w, const tt__wire_leg *leg, int64_t step)
{
    tell(w, tt_traffic_op_number(leg->x.kind), leg->x.op->name, leg->where,
         step);
}

// On a device: without peers; by the devices themselves; or staged through the host's
// memory. An axis of one rank has no links.
static tt_status carry_on_device(tt__carrier *c, const tt__wire_plan *plan,
                                 const tt__wire_leg *leg)
{
    if (leg->way->alone != NULL)
        return leg->way->alone(plan->device, TT_QUEUE_WIRE, leg);
    if (leg->x.kind->way == TT_TRAFFIC_REDUCE && leg->call.group.n == 1)
        return tt__alone_reduce(plan->device, TT_QUEUE_WIRE, leg);
    return plan->is_linked && leg->links != NULL
               ? leg->way->link(c, leg)
               : tt__carry_staged(c, plan->device, leg);
}

// Links between devices carry packets as they carry all blocks: whole.
static tt_status carry_packets(tt_comm_wire *w, const tt__wire_job *job,
                               int64_t at)
{
    tt__carrier *c = &w->carrier;
    for (int32_t i = 0; i < job->n_legs; i++)
        tt__wire_tell(w, &job->leg[i], at);
    return job->plan->device != NULL
               ? tt__carry_staged_packets(c, job->plan->device, job)
               : tt__wire_packets_run(c, job, NULL);
}

static tt_status carry_legs(tt_comm_wire *w, const tt__wire_job *job,
                            int64_t at)
{
    tt__carrier *c = &w->carrier;
    if (job->packets.what.n > 0 && !job->plan->is_linked)
        return carry_packets(w, job, at);
    for (int32_t i = 0; i < job->n_legs; i++) {
        const tt__wire_leg *leg = &job->leg[i];
        tt__wire_tell(w, leg, at);
        TT_TRY(job->plan->device != NULL
                   ? carry_on_device(c, job->plan, leg)
                   : leg->way->run(c, leg, leg->in, leg->out));
    }
    return TT_OK;
}

// With a device: begins after the event that the operands are ready, and sets the event
// that the results have landed.
static tt_status carry_flight(tt_comm_wire *w, const tt__wire_job *job,
                              int64_t at)
{
    tt_backend *device = job->plan->device;
    if (device == NULL)
        return carry_legs(w, job, at);
    const tt_queue_def *queue = device->def->queue;
    TT_TRY(queue->follow(device, TT_QUEUE_WIRE, tt__wire_stage_ready(job)));
    TT_TRY(carry_legs(w, job, at));
    TT_TRY(queue->note(device, TT_QUEUE_WIRE, tt__wire_stage_landed(job)));
    return job->plan->is_linked ? tt__device_groups_wait(&w->carrier, job)
                                : TT_OK;
}

static tt_status carry(tt_comm_wire *w, const tt__wire_job *job, int64_t step)
{
    if (job->plan != NULL)
        return carry_flight(w, job, step);
    tell(w, -1, job->what, "", step);
    return tt__carrier_call(&w->carrier, job->call);
}

// ---- what both sides read ------------------------------------------------

void tt__wire_flight_begun(tt_comm_wire *w, tt__wire_job *job)
{
    job->begun = tt_clock_seconds();
    if (job->plan != NULL && w->n_under_way++ == 0)
        w->busy_since = job->begun;
}

// Numbers that the host reads are copied out of the transport here, under the lock.
void tt__wire_flight_over(tt_comm_wire *w, tt__wire_job *job)
{
    const tt_comm_stats *sent = &w->carrier.comm->stats;
    w->messages = sent->sent_messages;
    w->bytes = sent->sent_bytes;
    w->packet_bytes = w->carrier.packet_bytes;
    job->ended = tt_clock_seconds();
    w->n_over++;
    if (job->plan != NULL && --w->n_under_way == 0)
        w->busy += job->ended - w->busy_since;
}

void tt__wire_queue_clear(tt_comm_wire *w)
{
    w->first = w->last = NULL;
    atomic_store(&w->n_moves, 0);
}

void tt__wire_failed(tt_comm_wire *w, tt_status status)
{
    if (w->status == TT_OK) {
        w->status = status;
        snprintf(w->message, sizeof w->message, "%s", tt_error_message());
    }
    tt__wire_queue_clear(w);
}

// ---- the thread ----------------------------------------------------------

// The caller holds the lock, before and after; it is free while the job runs.
static void do_job(tt_comm_wire *w, tt__wire_job *job)
{
    const int64_t step = w->step;
    w->current = job;
    while (tt__moves_keep_waiting(w, job)) {
        (void)tt__moves_overtake(w);
        tt__moves_turn(w);
    }
    if (w->status != TT_OK || w->is_closing) {
        w->current = NULL;
        return;
    }
    tt__wire_flight_begun(w, job);
    pthread_mutex_unlock(&w->lock);
    const tt_status status = carry(w, job, step);
    pthread_mutex_lock(&w->lock);
    w->current = NULL;
    tt__wire_flight_over(w, job);
    job->is_done = status == TT_OK;
    if (status != TT_OK)
        tt__wire_failed(w, status);
    else if (w->open != NULL) // messages of moves came meanwhile
        (void)tt__moves_settle(w);
}

static tt__wire_job *next_job(tt_comm_wire *w)
{
    tt__wire_job *job = w->first;
    w->first = job->next;
    w->last = w->first != NULL ? w->last : NULL;
    if (job->is_move)
        (void)atomic_fetch_sub(&w->n_moves, 1);
    return job;
}

static void *thread_main(void *user)
{
    tt_comm_wire *w = user;
    pthread_mutex_lock(&w->lock);
    while (!w->is_closing) {
        if (w->status != TT_OK && w->open != NULL)
            tt__moves_drop(w);
        if (w->first == NULL && w->open == NULL) {
            pthread_cond_wait(&w->has_job, &w->lock);
            continue;
        }
        if (w->first == NULL) {
            tt__moves_turn(w);
            continue;
        }
        tt__wire_job *job = next_job(w);
        if (job->is_move)
            tt__moves_open(w, job);
        else
            do_job(w, job);
        pthread_cond_signal(&w->has_done);
    }
    tt__moves_drop(w);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

tt_status tt__wire_thread_start(tt_comm_wire *w)
{
    TT_TRY(tt_thread_start(&w->thread, thread_main, w, "the wire"));
    w->has_thread = true;
    return TT_OK;
}

void tt__wire_thread_stop(tt_comm_wire *w)
{
    if (!w->has_thread)
        return;
    pthread_mutex_lock(&w->lock);
    w->is_closing = true;
    pthread_cond_signal(&w->has_job);
    tt_comm_wake(w->carrier.comm);
    pthread_mutex_unlock(&w->lock);
    (void)pthread_join(w->thread, NULL);
}

static tt_status failed(const tt_comm_wire *w)
{
    return tt_fail(w->status, "%s", w->message);
}

tt_status tt__wire_job_post(tt_comm_wire *w, tt__wire_job *job)
{
    tt_status status = TT_OK;
    pthread_mutex_lock(&w->lock);
    if (w->status != TT_OK) {
        status = failed(w);
    } else {
        job->is_done = false;
        job->ready = tt_clock_seconds();
        job->next = NULL;
        if (w->last != NULL)
            w->last->next = job;
        else
            w->first = job;
        w->last = job;
        if (job->is_move)
            (void)atomic_fetch_add(&w->n_moves, 1);
        pthread_cond_signal(&w->has_job);
        // A collective that waits takes up moves; open moves wait for any job.
        if (w->current != NULL ? job->is_move : w->n_under_way > 0)
            tt_comm_wake(w->carrier.comm);
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

// Seconds in flights up to now, including those that are under way; with the lock. A wait
// asks before and after: the difference is the time in which the executor stood still
// *and* something travelled. That is the exposed communication. A wait in which the wire
// did nothing is not counted as such.
static double busy_until_now(const tt_comm_wire *w)
{
    return w->busy +
           (w->n_under_way > 0 ? tt_clock_seconds() - w->busy_since : 0);
}

tt_status tt__wire_job_wait(tt_comm_wire *w, const tt__wire_job *job,
                            double *busy_out)
{
    tt_status status = TT_OK;
    pthread_mutex_lock(&w->lock);
    const double before = busy_until_now(w);
    w->n_waiting++;
    while (!job->is_done && w->status == TT_OK)
        pthread_cond_wait(&w->has_done, &w->lock);
    w->n_waiting--;
    if (!job->is_done)
        status = failed(w);
    *busy_out = busy_until_now(w) - before;
    pthread_mutex_unlock(&w->lock);
    return status;
}

bool tt__wire_job_is_done(tt_comm_wire *w, const tt__wire_job *job)
{
    pthread_mutex_lock(&w->lock);
    const bool is_done = job->is_done;
    pthread_mutex_unlock(&w->lock);
    return is_done;
}

tt_status tt__wire_wait_any(tt_comm_wire *w, int64_t *n_over_io,
                            double *busy_out)
{
    tt_status status = TT_OK;
    pthread_mutex_lock(&w->lock);
    const double before = busy_until_now(w);
    w->n_waiting++;
    while (w->n_over <= *n_over_io && w->status == TT_OK)
        pthread_cond_wait(&w->has_done, &w->lock);
    w->n_waiting--;
    if (w->n_over <= *n_over_io)
        status = failed(w);
    *n_over_io = w->n_over;
    *busy_out = busy_until_now(w) - before;
    pthread_mutex_unlock(&w->lock);
    return status;
}

static bool is_used(const tt_comm_wire *w, const tt__wire_plan *plan)
{
    bool is_open = w->current != NULL && w->current->plan == plan;
    for (int32_t j = 0; j < plan->n_jobs; j++)
        is_open |= plan->job[j].is_open;
    for (const tt__wire_job *j = w->first; j != NULL; j = j->next)
        is_open |= j->plan == plan;
    return is_open;
}

// Only after a failure of the executor: otherwise all flights of a plan are over.
void tt__wire_thread_release(tt_comm_wire *w, const tt__wire_plan *plan)
{
    pthread_mutex_lock(&w->lock);
    if (is_used(w, plan) && w->status == TT_OK)
        tt__wire_failed(w, tt_fail(TT_ERR_STATE,
                                   "rank %d gave up a step while data of it "
                                   "were under way",
                                   w->carrier.comm->rank));
    while (is_used(w, plan)) {
        tt_comm_wake(w->carrier.comm);
        pthread_cond_signal(&w->has_job);
        pthread_cond_wait(&w->has_done, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
}
