// crowd_wall - workers with weights of their own by the wall clock: what they do is done in
// the order in which their gradients are ready, and that order is kept.
//
// Weights go from one rank to another, and nobody sees all of that. So rank 0 gives the
// order, and nothing else: a rank says that a gradient is ready, rank 0 tells all whose turn
// it is, and each rank does its part of what the rules list for that worker
// (exchange/peer.h), as it does when the order is drawn.
//
//   worker's rank   READY: head of a gradient, to rank 0
//   rank 0          NEXT: that worker, and the head, to all
//   rank a to b     vectors that the rules mix; to rank 0 with a word before them (VECTOR)
//
// Ranks look between the kernels of their gradients, so that a partner who computes is not
// waited for longer than a kernel takes. A worker computes at a copy of its weights, so others
// may change them meanwhile.
//
// A rank that computes may hear of many steps; it gives back their results one after another.
// The last NEXT of a step says whether all meet after it (logs, evaluations, checkpoints).
// Then rank 0 gives no order until all have said their last words (FIN), and the
// transport is empty. What is ready meanwhile waits; a checkpoint has its worker's weights.
//
// Nobody can wait for somebody who waits for him: all come to the same turns in the same
// order (job/dynamic/dynamic_post.c).
//
//   cost   a letter to rank 0 and one to each rank for a gradient; the vectors

#include "job/dynamic/crowd_wall.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "job/dynamic/dynamic_math.h"

#include <string.h>
#include <time.h>

static tt_status no_memory(void)
{
    return tt_fail(TT_ERR_NOMEM, "no memory for messages");
}

static double now(const tt_dynamic *d)
{
    return tt_clock_seconds() - d->crowd->wall->began;
}

static bool is_first(const tt_dynamic *d)
{
    return tt_peers_is_first(&d->job->peers);
}

// ---- turns ---------------------------------------------------------------

static tt_status add_result(tt__crowd_wall *w, const tt__crowd_result *result)
{
    if (w->n_results == w->result_room) {
        const int64_t room = 2 * w->result_room + 4;
        tt__crowd_result *more = tt_alloc(room * (int64_t)sizeof *more);
        if (more == NULL)
            return no_memory();
        if (w->n_results > 0)
            memcpy(more, w->result, (size_t)w->n_results * sizeof *more);
        tt_free(w->result);
        w->result = more;
        w->result_room = room;
    }
    w->result[w->n_results++] = *result;
    return TT_OK;
}

static tt_status end_step(tt_dynamic *d, const tt__crowd_letter *next)
{
    tt__crowd_result r = {
        .step = {.stop = next->stop, .save = next->save && !next->stop},
        .meets = next->meets};
    tt__dynamic_add_up(d, &r.step);
    r.step.norm = tt__crowd_norm(d);
    memset(d->tally, 0, (size_t)d->workers * TT_HEAD_N * sizeof *d->tally);
    d->n_delivered = 0;
    d->crowd->wall->is_closed = next->meets;
    return add_result(d->crowd->wall, &r);
}

// All ranks: a worker's turn.
static tt_status take_turn(tt_dynamic *d, const tt__crowd_letter *next)
{
    const int32_t worker = (int32_t)next->worker;
    d->crowd->lr = next->lr;
    tt_drawn_arrived(&d->drawn, worker, next->now, next->waited,
                     next->computed);
    TT_TRY(tt__crowd_follow(d, worker, next->head));
    if (tt__worker_own(d, worker) != NULL)
        d->crowd->wall->got[worker - d->first] = now(d);
    return next->is_last ? end_step(d, next) : TT_OK;
}

// Rank 0: who is ready becomes who is next.
static void decide(tt_dynamic *d, tt__crowd_letter *l)
{
    tt__crowd_wall *w = d->crowd->wall;
    const tt_job *job = d->job;
    w->wants_stop = w->wants_stop || l->stop;
    l->kind = TT_CROWD_NEXT;
    l->now = now(d);
    l->lr = job->lr;
    l->is_last = d->n_delivered + 1 == d->workers;
    l->stop = l->is_last && w->wants_stop;
    l->save = l->is_last && job->wants_save && !l->stop;
    l->meets = l->is_last && (job->meets || l->stop || l->save);
    tt__dynamic_judge(d, l->head);
    tt_str_addf(&d->record, "%d %.6f\n", (int)l->worker, l->now);
}

static tt_status order(tt_dynamic *d, tt__crowd_letter *l)
{
    decide(d, l);
    for (int32_t r = 1; r < d->job->peers.size; r++)
        TT_TRY(tt__crowd_send(d, r, l));
    d->crowd->wall->is_over = l->is_last;
    return take_turn(d, l);
}

// Rank 0 takes who is ready, the others what rank 0 says; not in the middle of a turn.
static tt_status follow(tt_dynamic *d)
{
    tt__crowd_wall *w = d->crowd->wall;
    tt_status status = TT_OK;
    if (w->is_following)
        return TT_OK;
    w->is_following = true;
    while (status == TT_OK && w->queue != NULL &&
           !(is_first(d) && w->is_over)) {
        tt__crowd_parcel *p = w->queue;
        tt__crowd_letter letter = p->letter;
        w->queue = p->next;
        if (w->queue == NULL)
            w->last = &w->queue;
        tt__crowd_spare(w, p);
        status = is_first(d) ? order(d, &letter) : take_turn(d, &letter);
    }
    w->is_following = false;
    return status;
}

static tt_status turn(tt_dynamic *d, bool *did)
{
    TT_TRY(tt__crowd_receive(d, did));
    return follow(d);
}

// ---- this rank's workers -------------------------------------------------

// Between the kernels of a gradient.
static tt_status glance(void *user)
{
    tt_dynamic *d = user;
    bool did = false;
    return d->comm != NULL ? turn(d, &did) : TT_OK;
}

// trial.pace: a gradient of this worker takes its modelled seconds.
static tt_status pace(tt_dynamic *d, int32_t worker, double began)
{
    const double until = began + tt__worker_seconds(d, worker);
    while (now(d) < until) {
        const struct timespec nap = {.tv_nsec = 50000};
        TT_TRY(glance(d));
        (void)nanosleep(&nap, NULL);
    }
    return TT_OK;
}

// Of those that are not ready, the one that has had its weights longest; -1: none.
static int32_t whose_turn(const tt_dynamic *d)
{
    const double *got = d->crowd->wall->got;
    int32_t at = -1;
    for (int32_t i = 0; i < d->n_own; i++)
        if (!d->own[i].is_computed && (at < 0 || got[i] < got[at]))
            at = i;
    return at;
}

static tt_status work(tt_dynamic *d, bool *did)
{
    const int32_t i = whose_turn(d);
    *did = i >= 0;
    if (i < 0)
        return TT_OK;
    const double began = now(d);
    TT_TRY(tt__worker_compute(d, d->first + i));
    TT_TRY(pace(d, d->first + i, began));
    tt__crowd_letter l = {.kind = TT_CROWD_READY,
                          .worker = d->first + i,
                          .waited = began - d->crowd->wall->got[i],
                          .computed = now(d) - began,
                          .stop = d->job->wants_stop};
    memcpy(l.head, d->own[i].head.v, sizeof l.head);
    TT_TRY(is_first(d) ? tt__crowd_keep(d, &l) : tt__crowd_send(d, 0, &l));
    return follow(d);
}

// ---- a step --------------------------------------------------------------

static tt_status go_on(tt_dynamic *d)
{
    const tt__crowd_wall *w = d->crowd->wall;
    tt_rest r = {0};
    tt_status status = TT_OK;
    while (status == TT_OK && w->n_results == 0) {
        bool did = false, worked = false;
        status = turn(d, &did);
        if (status == TT_OK && w->n_results == 0)
            status = work(d, &worked);
        if (status == TT_OK && !did && !worked && w->n_results == 0)
            status = tt__crowd_rest(d, &r);
        else if (d->comm != NULL)
            tt_comm_rested(d->comm, &r);
    }
    return status;
}

// All that was sent is gone, and rank 0 has all last words.
static tt_status meet(tt_dynamic *d)
{
    const tt__crowd_letter fin = {.kind = TT_CROWD_FIN};
    tt_rest r = {0};
    tt_status status = is_first(d) ? TT_OK : tt__crowd_send(d, 0, &fin);
    while (status == TT_OK && !tt__crowd_is_empty(d)) {
        bool did = false;
        status = tt__crowd_receive(d, &did);
        if (did)
            tt_comm_rested(d->comm, &r);
        else if (status == TT_OK && !tt__crowd_is_empty(d))
            status = tt__crowd_rest(d, &r);
    }
    tt_comm_rested(d->comm, &r);
    return status;
}

static tt__crowd_result next_result(tt__crowd_wall *w)
{
    const tt__crowd_result r = w->result[0];
    w->n_results--;
    memmove(w->result, w->result + 1, (size_t)w->n_results * sizeof *w->result);
    return r;
}

tt_status tt__crowd_wall_step(tt_dynamic *d, tt_step_result *result_out)
{
    const tt_peers *peers = &d->job->peers;
    tt__crowd_wall *w = d->crowd->wall;
    d->comm = peers->size > 1 ? tt_comm_wire_borrow(peers->wire) : NULL;
    w->began = tt_clock_seconds() - w->elapsed;
    w->is_over = w->wants_stop = false;
    tt_status status = follow(d);
    if (status == TT_OK)
        status = go_on(d);
    if (status == TT_OK) {
        const tt__crowd_result r = next_result(w);
        *result_out = r.step;
        if (r.meets && d->comm != NULL)
            status = meet(d);
        if (r.meets)
            tt__crowd_reopen(w);
    }
    if (status != TT_OK && d->comm != NULL)
        d->comm->def->abandon(d->comm);
    w->elapsed = now(d);
    if (d->comm != NULL)
        tt_comm_wire_give_back(peers->wire);
    d->comm = NULL;
    return status;
}

tt_status tt__crowd_wall_open(tt_dynamic *d)
{
    tt__crowd_wall *w = tt_arena_alloc(d->arena, sizeof *w);
    if (w == NULL)
        return TT_ERR_NOMEM;
    d->crowd->wall = w;
    w->last = &w->queue;
    w->got = tt_arena_alloc(d->arena, (d->n_own + 1) * (int64_t)sizeof *w->got);
    if (w->got == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt__crowd_post_open(d));
    tt_exec_between(d->exec, glance, d);
    return TT_OK;
}

void tt__crowd_wall_resume(tt_dynamic *d)
{
    tt__crowd_wall *w = d->crowd != NULL ? d->crowd->wall : NULL;
    if (w == NULL)
        return;
    w->elapsed = d->drawn.now;
    for (int32_t i = 0; i < d->n_own; i++)
        w->got[i] = d->drawn.now;
}

void tt__crowd_wall_close(tt_dynamic *d)
{
    if (d->crowd == NULL || d->crowd->wall == NULL)
        return;
    tt_free(d->crowd->wall->result);
    tt__crowd_post_close(d);
}
