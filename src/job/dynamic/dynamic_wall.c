// dynamic_wall - the wall clock: gradients are taken in the order in which they come, and
// that order is kept.
//
// Every rank goes round a loop: take what has come, compute a gradient if a worker has
// weights, else wait. Ranks that keep weights also look between the kernels of their own
// gradients, so nobody waits for them.
//
//   worker's rank   PUSH head, part of rank 0        PART to each other shard
//   rank 0          ORDER: who is next, to the other shards; STEP: results, to all
//   each shard      ANSWER: its weights, to the worker's rank
//
// A worker goes on when all shards have answered. With exchange.server=single there is one
// shard, rank 0's, and no order to tell.
//
// A rank's step is over when it hears of it, and nobody waits for anybody until the next step
// after which all ranks meet (logs, evaluations, checkpoints). Before they meet, ranks stop
// computing new gradients and tell each other their last words (FIN); so the transport is
// empty and the wire can have it.
//
// What has come between the end of a step and the meeting waits in a queue. A worker whose
// gradient waits there counts as one that still computes: a checkpoint has its weights.
//
// With proxies (wall_proxy.c) gradients make a stop on their way, and so do weights.
//
// The record is the list of who delivered. Rules are a function of it (exchange/server.h), so
// it is all that a repetition needs.
//
// The cost of a step of n ranks with shards: (n - 1) / n of the gradient out and in, as much of
// the weights in and out, as an all-reduce has; and a letter from rank 0 to each shard.

#include "job/dynamic/coder.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/wall_hurry.h"
#include "job/dynamic/wall_proxy.h"

#include <string.h>
#include <time.h>

static tt_status turn(tt_dynamic *d, bool *did)
{
    TT_TRY(tt__wall_receive(d, did));
    TT_TRY(tt__wall_push_sums(d));
    return tt__wall_follow(d);
}

// ---- this rank's workers -------------------------------------------------

// Between the kernels of a gradient: what has come is taken meanwhile.
static tt_status glance(void *user)
{
    tt_dynamic *d = user;
    bool did = false;
    const bool listens = tt__keeps_weights(d, d->job->peers.rank) ||
                         d->tree != NULL || tt__hurry_is(d);
    return d->comm != NULL && listens ? turn(d, &did) : TT_OK;
}

tt_status tt__wall_pace(tt_dynamic *d, int32_t worker, double part)
{
    const double until = d->wall->turn + part * tt__worker_seconds(d, worker);
    while (tt_clock_seconds() < until) {
        const struct timespec nap = {.tv_nsec = 50000};
        TT_TRY(glance(d));
        (void)nanosleep(&nap, NULL);
    }
    return TT_OK;
}

// Of this rank's workers that have weights, the one that has had them longest; -1: none. The
// first one would always be answered before the others have their turn.
static int32_t whose_turn(const tt_dynamic *d)
{
    const double *got = d->wall->got;
    int32_t at = -1;
    for (int32_t i = 0; i < d->n_own; i++)
        if (!d->own[i].is_computed && (at < 0 || got[i] < got[at]))
            at = i;
    return at;
}

// What rank r's shard gets.
static void *part_for(const tt_dynamic *d, int32_t worker, int32_t r,
                      int64_t *bytes_out)
{
    if (tt__shards_decode(d))
        return tt__coder_code(d, worker, r, bytes_out);
    *bytes_out = tt__shard_size(d, r) * tt__element(d);
    return tt__element_at(d, tt__worker_own(d, worker)->gradient, d->bound[r]);
}

// To this rank's own shard: a gradient is read where it is.
static tt_status push_here(tt_dynamic *d, const tt__wall_letter *head,
                           void *data)
{
    tt__wall_line here = {.head = *head};
    void *room = NULL;
    if (!tt__shards_decode(d)) {
        here.head.shown = head->is_bare ? d->room : data;
        return tt__wall_take(d, &here);
    }
    TT_TRY(tt__wall_room(d, &here, &room));
    memcpy(room, data, (size_t)head->bytes);
    return tt__wall_take(d, &here);
}

tt_status tt__wall_push(tt_dynamic *d, tt__wall_letter *head)
{
    d->wall->missing[head->worker - d->first] = d->wall->n_shards;
    for (int32_t r = 0; r < d->job->peers.size; r++) {
        if (!tt__keeps_weights(d, r))
            continue;
        head->kind = r == 0 ? TT_WALL_PUSH : TT_WALL_PART;
        void *data = part_for(d, (int32_t)head->worker, r, &head->bytes);
        TT_TRY(r == d->job->peers.rank ? push_here(d, head, data)
                                       : tt__wall_send(d, r, head, data, NULL));
    }
    return tt__wall_follow(d);
}

static tt_status work(tt_dynamic *d, bool *did)
{
    const int32_t i = whose_turn(d);
    *did = i >= 0;
    if (i < 0)
        return TT_OK;
    const int32_t worker = d->first + i;
    const double began = tt_clock_seconds(), busy = d->busy;
    d->wall->turn = began;
    TT_TRY(tt__worker_compute(d, worker));
    const double left = (double)d->own[i].left_out;
    TT_TRY(tt__wall_pace(d, worker,
                         1 - left / (double)d->job->options.accumulate));
    const double start = began - d->wall->began, end = tt__wall_now(d);
    tt__wall_letter head = {
        .worker = worker,
        .is_bare = tt__wall_is_bare(d),
        .v = {[TT_WALL_STOP] = d->job->wants_stop,
              [TT_WALL_WAITED] = start - d->wall->got[i],
              [TT_WALL_COMPUTED] = end - start - (d->busy - busy),
              [TT_WALL_LEFT] = left}};
    memcpy(head.v, d->own[i].head.v, sizeof(tt__push_head));
    return d->tree != NULL ? tt__wall_to_proxy(d, &head)
                           : tt__wall_push(d, &head);
}

// ---- a step --------------------------------------------------------------

static bool computes(const tt_dynamic *d, int32_t rank)
{
    for (int32_t i = 0; i < d->workers; i++)
        if (tt__worker_rank(d, i) == rank && !tt__worker_waits(d, i))
            return true;
    return false;
}

static bool has_said(const tt_dynamic *d, const tt__wall_line *l)
{
    return l->is_fin || (d->wall->waits_for_lull && l->is_lull);
}

// What this rank waits for: a gradient that a group lacks; or a rank that has not said its last
// word, of rank 0 first one that computes.
static const tt_msg *awaited(const tt_dynamic *d)
{
    const tt__wall_line *found = &d->wall->line[0];
    for (int32_t i = d->wall->n_lines - 1; i >= 0; i--) {
        const tt__wall_line *l = &d->wall->line[i];
        const bool is_due = !tt__wall_is_first(d) || computes(d, l->peer) ||
                            !computes(d, found->peer);
        if (!has_said(d, l) && tt__wall_lacks(d, l->peer))
            return &l->msg;
        if (!has_said(d, l) && (is_due || has_said(d, found)))
            found = l;
    }
    return &found->msg;
}

static tt_status rest(const tt_dynamic *d, tt_rest *r)
{
    return d->comm == NULL ? tt_fail(TT_ERR_STATE, "all workers wait")
                           : tt_comm_turn(d->comm, awaited(d), r);
}

static tt_status go_on(tt_dynamic *d)
{
    tt_rest r = {0};
    tt_status status = TT_OK;
    while (status == TT_OK && !d->wall->is_over) {
        bool did = false, worked = false;
        status = turn(d, &did);
        if (status == TT_OK && !d->wall->is_over)
            status = work(d, &worked);
        if (status == TT_OK && !did && !worked && !d->wall->is_over)
            status = rest(d, &r);
        else if (d->comm != NULL)
            tt_comm_rested(d->comm, &r);
    }
    return status;
}

// What was asked of all is here, and last of all what was sent is gone.
static bool have_said(const tt_dynamic *d)
{
    for (int32_t i = 0; i < d->wall->n_lines; i++)
        if (!has_said(d, &d->wall->line[i]))
            return false;
    return d->wall->waits_for_lull || d->wall->out == NULL;
}

// A word to all ranks, and theirs.
static tt_status exchange_words(tt_dynamic *d, tt__wall_kind kind)
{
    const tt__wall_letter word = {.kind = kind};
    tt_rest r = {0};
    tt_status status = TT_OK;
    d->wall->waits_for_lull = kind == TT_WALL_LULL;
    for (int32_t i = 0; i < d->wall->n_lines && status == TT_OK; i++)
        status = tt__wall_send(d, d->wall->line[i].peer, &word, NULL, NULL);
    while (status == TT_OK && !have_said(d)) {
        bool did = false;
        status = tt__wall_receive(d, &did);
        if (did)
            tt_comm_rested(d->comm, &r);
        else if (status == TT_OK && !have_said(d))
            status = rest(d, &r);
    }
    tt_comm_rested(d->comm, &r);
    d->wall->waits_for_lull = false;
    return status;
}

// A proxy that is answered gives its group weights. So last words come after all answers.
static tt_status meet(tt_dynamic *d, bool meets)
{
    if (d->comm == NULL || !meets)
        return TT_OK;
    if (d->tree != NULL)
        TT_TRY(exchange_words(d, TT_WALL_LULL));
    TT_TRY(exchange_words(d, TT_WALL_FIN));
    for (int32_t i = 0; i < d->wall->n_lines; i++)
        d->wall->line[i].is_lull = d->wall->line[i].is_fin = false;
    return TT_OK;
}

tt_status tt__wall_step(tt_dynamic *d, tt_step_result *result_out)
{
    tt_job *job = d->job;
    struct tt__wall *w = d->wall;
    d->comm = job->peers.size > 1 ? tt_comm_wire_borrow(job->peers.wire) : NULL;
    w->began = tt_clock_seconds() - w->elapsed;
    w->is_over = w->wants_stop = false;
    tt_status status = tt__wall_follow(d);
    if (status == TT_OK)
        status = go_on(d);
    if (status == TT_OK) {
        *result_out = w->step;
        status = meet(d, job->meets || w->step.stop || w->step.save);
    }
    if (status != TT_OK && d->comm != NULL)
        d->comm->def->abandon(d->comm);
    w->elapsed = tt__wall_now(d);
    if (d->comm != NULL)
        tt_comm_wire_give_back(job->peers.wire);
    d->comm = NULL;
    return status;
}

tt_status tt__wall_open(tt_dynamic *d)
{
    struct tt__wall *w = tt_arena_alloc(d->arena, sizeof *w);
    if (w == NULL)
        return TT_ERR_NOMEM;
    d->wall = w;
    w->last = &w->queue;
    w->hurried = -1;
    w->got = tt_arena_alloc(d->arena, (d->n_own + 1) * (int64_t)sizeof *w->got);
    w->missing =
        tt_arena_alloc(d->arena, (d->n_own + 1) * (int64_t)sizeof *w->missing);
    if (w->got == NULL || w->missing == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt__wall_post_open(d));
    tt_exec_between(d->exec, glance, d);
    return TT_OK;
}

void tt__wall_resume(tt_dynamic *d)
{
    struct tt__wall *w = d->wall;
    if (w == NULL)
        return;
    w->elapsed = d->drawn.now;
    for (int32_t i = 0; i < d->n_own; i++) {
        w->got[i] = d->drawn.now;
        if (tt__worker_waits(d, d->first + i))
            w->missing[i] = w->n_shards;
    }
}

void tt__wall_close(tt_dynamic *d)
{
    if (d->wall != NULL)
        tt__wall_post_close(d);
}
