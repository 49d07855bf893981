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

// On a device: without peers; by the devices themselves; or staged through the host's
// memory.
static tt_status carry_on_device(tt__carrier *c, const tt__wire_plan *plan,
                                 const tt__wire_leg *leg)
{
    if (leg->way->alone != NULL)
        return leg->way->alone(plan->device, TT_QUEUE_WIRE, leg);
    return plan->is_linked ? leg->way->link(c, leg)
                           : tt__carry_staged(c, plan->device, leg);
}

static tt_status carry_legs(tt_comm_wire *w, const tt__wire_job *job,
                            int64_t at)
{
    tt__carrier *c = &w->carrier;
    for (int32_t i = 0; i < job->n_legs; i++) {
        const tt__wire_leg *leg = &job->leg[i];
        tell(w, tt_traffic_op_number(leg->x.kind), leg->x.op->name, leg->where,
             at);
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
    TT_TRY(queue->follow(device, TT_QUEUE_WIRE,
                         tt__wire_stage_ready(job->flight)));
    TT_TRY(carry_legs(w, job, at));
    TT_TRY(
        queue->note(device, TT_QUEUE_WIRE, tt__wire_stage_landed(job->flight)));
    return job->plan->is_linked
               ? tt__device_groups_wait(&w->carrier, job->flight)
               : TT_OK;
}

static tt_status carry(tt_comm_wire *w, const tt__wire_job *job, int64_t step)
{
    if (job->plan != NULL)
        return carry_flight(w, job, step);
    tell(w, -1, job->what, "", step);
    return tt__carrier_call(&w->carrier, job->call);
}

// The caller holds the lock, before and after; it is free while the job runs. Numbers
// that the host reads are copied out of the transport here, under the lock.
static void do_job(tt_comm_wire *w, tt__wire_job *job)
{
    const int64_t step = w->step;
    job->begun = tt_clock_seconds();
    w->current = job;
    pthread_mutex_unlock(&w->lock);
    const tt_status status = carry(w, job, step);
    job->ended = tt_clock_seconds();
    pthread_mutex_lock(&w->lock);
    w->current = NULL;
    const tt_comm_stats *sent = &w->carrier.comm->stats;
    w->messages = sent->sent_messages;
    w->bytes = sent->sent_bytes;
    if (job->plan != NULL)
        w->busy += job->ended - job->begun;
    job->is_done = status == TT_OK;
    if (status != TT_OK) {
        w->status = status;
        snprintf(w->message, sizeof w->message, "%s", tt_error_message());
        w->first = w->last = NULL;
    }
}

static void *thread_main(void *user)
{
    tt_comm_wire *w = user;
    pthread_mutex_lock(&w->lock);
    while (!w->is_closing) {
        tt__wire_job *job = w->first;
        if (job == NULL) {
            pthread_cond_wait(&w->has_job, &w->lock);
            continue;
        }
        w->first = job->next;
        w->last = w->first != NULL ? w->last : NULL;
        do_job(w, job);
        pthread_cond_signal(&w->has_done);
    }
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
        pthread_cond_signal(&w->has_job);
    }
    pthread_mutex_unlock(&w->lock);
    return status;
}

// Seconds in flights up to now, including the part of the current one; with the lock.
// A wait asks before and after: the difference is the time in which the executor stood
// still *and* something travelled. That is the exposed communication. A wait in which
// the wire did nothing is not counted as such.
static double busy_until_now(const tt_comm_wire *w)
{
    const tt__wire_job *job = w->current;
    return w->busy + (job != NULL && job->plan != NULL
                          ? tt_clock_seconds() - job->begun
                          : 0);
}

tt_status tt__wire_job_wait(tt_comm_wire *w, const tt__wire_job *job,
                            double *busy_out)
{
    tt_status status = TT_OK;
    pthread_mutex_lock(&w->lock);
    const double before = busy_until_now(w);
    while (!job->is_done && w->status == TT_OK)
        pthread_cond_wait(&w->has_done, &w->lock);
    if (!job->is_done)
        status = failed(w);
    *busy_out = busy_until_now(w) - before;
    pthread_mutex_unlock(&w->lock);
    return status;
}
