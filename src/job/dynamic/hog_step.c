// hog_step - a step of workers that share weights: gradients until its rows are full.

#include "base/clock.h"
#include "base/rng.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/hog.h"

#include <math.h>
#include <string.h>
#include <time.h>

// Seconds of steps so far: evaluations and checkpoints do not count.
static double now(const tt_dynamic *d)
{
    return tt_clock_seconds() - d->hog->began;
}

static const tt_peer_params *params_of(const tt_dynamic *d)
{
    return d->crowd->rules.rules.params;
}

// ---- a gradient ----------------------------------------------------------

// trial.pace: a gradient of this worker takes its modelled seconds.
static void pace(const tt_dynamic *d, int32_t worker, double began)
{
    const double until = began + tt__worker_seconds(d, worker);
    while (now(d) < until) {
        const struct timespec nap = {.tv_nsec = 50000};
        (void)nanosleep(&nap, NULL);
    }
}

static tt_status compute(tt_dynamic *d, int32_t i)
{
    tt__dynamic_worker *w = &d->own[i];
    tt__hog *h = d->hog;
    if (w->is_computed)
        return TT_OK;
    const double began = now(d);
    TT_TRY(tt__worker_compute(d, d->first + i));
    tt__dynamic_judge(d, w->head.v);
    d->crowd->count[i] = w->head.v[TT_HEAD_COUNT];
    h->is_stepped[i] = false;
    pace(d, d->first + i, began);
    h->waited[i] = began - h->got[i];
    h->computed[i] = now(d) - began;
    return TT_OK;
}

static uint64_t key_of(const tt_dynamic *d, int32_t i, const char *what)
{
    return tt_rng_key((uint64_t)d->job->options.seed, what,
                      (uint64_t)(d->own[i].number * d->workers + d->first + i));
}

static void coarsen(const tt_dynamic *d, int32_t i, void *next)
{
    const uint64_t key = key_of(d, i, "exchange.moves");
    for (int32_t k = 0; k < d->n_parts && !d->part[k].is_buffer; k++) {
        const tt_vector_span n = {d->all.is_wide, d->part[k].tensor.count};
        tt_shared_coarsen(
            &n, tt__element_at(d, d->own[i].weights, d->part[k].at),
            tt__element_at(d, next, d->part[k].at), key + (uint64_t)k);
    }
}

// Beside the weights, so that it can be forgotten at a checkpoint.
static tt_status make_step(tt_dynamic *d, int32_t i)
{
    void *next = d->crowd->v[TT_PEER_SPARE][i];
    if (d->hog->is_stepped[i])
        return TT_OK;
    d->crowd->lr = d->job->lr;
    memcpy(next, d->crowd->v[TT_PEER_WEIGHTS][i],
           (size_t)tt_vector_bytes(&d->crowd->whole));
    TT_TRY(tt__crowd_step(d, d->first + i, d->own[i].number + 1, next));
    if (params_of(d)->moves == 1)
        coarsen(d, i, next);
    d->hog->is_stepped[i] = true;
    return TT_OK;
}

// ---- a delivery ----------------------------------------------------------

static tt__hog_row *row_at(const tt_dynamic *d, int64_t number)
{
    const int64_t ring = (int64_t)TT_HOG_STEPS * d->workers;
    return &d->hog->row[number % ring];
}

// The number of a delivery of step `step`; -1: it has all of them.
static int64_t take_number(const tt_dynamic *d, int64_t step)
{
    atomic_llong *taken = &d->hog->taken->v;
    long long n = atomic_load(taken);
    do {
        if (n / d->workers > step)
            return -1;
    } while (!atomic_compare_exchange_weak(taken, &n, n + 1));
    return n;
}

static void fill_row(const tt_dynamic *d, int32_t i, int64_t number)
{
    const tt__hog *h = d->hog;
    const tt__dynamic_worker *w = &d->own[i];
    const int32_t worker = d->first + i;
    tt__hog_row *row = row_at(d, number);
    *row = (tt__hog_row){.worker = worker,
                         .old = -1,
                         .now = now(d),
                         .waited = h->waited[i],
                         .computed = h->computed[i],
                         .wants_stop = d->job->wants_stop,
                         .wants_save = d->job->wants_save};
    memcpy(row->head, w->head.v, sizeof row->head);
    if (w->head.v[TT_HEAD_REFUSED] == 0) {
        const long long version =
            atomic_fetch_add(&tt__hog_version(d, worker)->v, 1);
        row->old = version - atomic_load(&h->seen[worker].v);
        atomic_store(&h->seen[worker].v, version + 1);
    }
    atomic_fetch_add(&h->filled[number / d->workers % TT_HOG_STEPS].v, 1);
}

// What was added is what the worker goes on with: others' changes are in it.
static void add_moves(const tt_dynamic *d, int32_t i)
{
    void **x = &d->crowd->v[TT_PEER_WEIGHTS][i];
    void **next = &d->crowd->v[TT_PEER_SPARE][i];
    tt_shared_add(tt__hog_copy(d, d->first + i), d->own[i].weights, *next,
                  key_of(d, i, "exchange.words"));
    void *was = *x;
    *x = *next;
    *next = was;
}

static void join_next(const tt_dynamic *d, int32_t i)
{
    const tt__hog *h = d->hog;
    const tt_shared *mine = tt__hog_copy(d, d->first + i);
    const int64_t at = mine - h->copy;
    if (h->n_copies == 1 || (d->own[i].number + 1) % params_of(d)->every != 0)
        return;
    tt_shared_join(mine, &h->copy[(at + 1) % h->n_copies],
                   key_of(d, i, "exchange.mean"));
    tt_shared_read(mine, d->crowd->v[TT_PEER_WEIGHTS][i]);
}

static void go_on(const tt_dynamic *d, int32_t i)
{
    tt__dynamic_worker *w = &d->own[i];
    memcpy(w->weights, d->crowd->v[TT_PEER_WEIGHTS][i],
           (size_t)tt_vector_bytes(&d->all));
    w->is_computed = false;
    w->number++;
    d->hog->got[i] = now(d);
}

static bool deliver(tt_dynamic *d, int32_t i, int64_t step)
{
    tt__hog *h = d->hog;
    atomic_llong *is_there = &h->is_there[d->job->peers.rank].v;
    atomic_store(is_there, 1);
    const int64_t number = take_number(d, step);
    if (number >= 0)
        fill_row(d, i, number);
    atomic_store(is_there, 0);
    if (number < 0)
        return false;
    if (d->own[i].head.v[TT_HEAD_REFUSED] == 0)
        add_moves(d, i);
    else
        tt_shared_read(tt__hog_copy(d, d->first + i),
                       d->crowd->v[TT_PEER_WEIGHTS][i]);
    join_next(d, i);
    go_on(d, i);
    return true;
}

// ---- waiting -------------------------------------------------------------

static bool is_full(const tt_dynamic *d, int64_t step)
{
    const int64_t round = step / TT_HOG_STEPS + 1;
    return atomic_load(&d->hog->filled[step % TT_HOG_STEPS].v) ==
           round * d->workers;
}

// A rank that has not read the rows which step `step` would overwrite; -1: none.
static int32_t far_behind(const tt_dynamic *d, int64_t step)
{
    for (int32_t r = 0; r < d->job->peers.size; r++)
        if (step - atomic_load(&d->hog->steps[r].v) >= TT_HOG_STEPS)
            return r;
    return -1;
}

static int32_t who_fills(const tt_dynamic *d)
{
    for (int32_t r = 0; r < d->job->peers.size; r++)
        if (atomic_load(&d->hog->is_there[r].v) != 0)
            return r;
    return 0;
}

static tt_status wait_full(const tt_dynamic *d, tt_comm *comm, int64_t step)
{
    tt_rest rest = {0};
    tt_status status = TT_OK;
    while (status == TT_OK && !is_full(d, step))
        status = tt_comm_turn(comm, &(tt_msg){.peer = who_fills(d)}, &rest);
    tt_comm_rested(comm, &rest);
    return status;
}

static tt_status wait_behind(const tt_dynamic *d, tt_comm *comm, int64_t step)
{
    tt_rest rest = {0};
    tt_status status = TT_OK;
    int32_t who = -1;
    while (status == TT_OK && (who = far_behind(d, step)) >= 0)
        status = tt_comm_turn(comm, &(tt_msg){.peer = who}, &rest);
    if (comm != NULL)
        tt_comm_rested(comm, &rest);
    return status;
}

// Waits block nobody who looks whether this rank lives.
static tt_status look_around(tt_comm *comm)
{
    bool moved = false;
    return comm != NULL ? comm->def->progress(comm, &moved) : TT_OK;
}

// ---- a step --------------------------------------------------------------

static tt_status work(tt_dynamic *d, tt_comm *comm, int64_t step)
{
    TT_TRY(wait_behind(d, comm, step));
    while (!is_full(d, step)) {
        const int32_t i = d->hog->next;
        TT_TRY(look_around(comm));
        TT_TRY(compute(d, i));
        TT_TRY(make_step(d, i));
        if (!deliver(d, i, step))
            return wait_full(d, comm, step);
        d->hog->next = (i + 1) % d->n_own;
    }
    return TT_OK;
}

static void read_row(tt_dynamic *d, const tt__hog_row *row)
{
    const int32_t worker = (int32_t)row->worker;
    memcpy(&d->tally[(int64_t)d->n_delivered * TT_HEAD_N], row->head,
           sizeof row->head);
    tt_drawn_arrived(&d->drawn, worker, fmax(row->now, d->drawn.now),
                     row->waited, row->computed);
    tt__dynamic_note(d, worker, false);
    (void)tt_peer_deliver(&d->crowd->rules, worker);
    tt_server_note(&d->server, worker, row->old);
    tt_drawn_begin(&d->drawn, worker);
}

static void read_rows(tt_dynamic *d, int64_t step, tt_step_result *result_out)
{
    bool stop = false, save = false;
    for (int64_t k = 0; k < d->workers; k++) {
        const tt__hog_row *row = row_at(d, step * d->workers + k);
        read_row(d, row);
        stop = stop || row->wants_stop;
        save = save || row->wants_save;
    }
    atomic_store(&d->hog->steps[d->job->peers.rank].v, step + 1);
    *result_out = (tt_step_result){.stop = stop, .save = save && !stop};
    tt__dynamic_add_up(d, result_out);
    result_out->norm = tt__crowd_norm(d);
    d->n_updates += d->workers;
}

tt_status tt__hog_step(tt_dynamic *d, tt_step_result *result_out)
{
    tt_job *job = d->job;
    tt__hog *h = d->hog;
    double met = 0;
    tt_comm *comm =
        job->peers.size > 1 ? tt_comm_wire_borrow(job->peers.wire) : NULL;
    if (h->base < 0)
        h->base = job->step;
    h->began = tt_clock_seconds() - h->elapsed;
    const int64_t step = job->step - h->base;
    const tt_status status = work(d, comm, step);
    if (status != TT_OK && comm != NULL)
        comm->def->abandon(comm);
    if (comm != NULL)
        tt_comm_wire_give_back(job->peers.wire);
    TT_TRY(status);
    read_rows(d, step, result_out);
    h->elapsed = now(d);
    // What ranks have taken numbers for is then added, too.
    return job->meets || result_out->stop || result_out->save
               ? tt__post_sum(d, &met, 1)
               : TT_OK;
}
