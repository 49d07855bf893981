// wall_rules - deliveries by the wall clock, in one order on all shards.
//
// Rank 0 takes gradients in the order in which their heads come to it, and says that order to
// the other shards. Each follows the rules by it (they are a pure function of the order), so
// all make the same updates of their tensors and answer the same workers, though nobody
// asks the others when. A shard that has the order and not yet its part of the gradient waits
// for that alone.
//
//   rank 0    push 3 | push 1 | ...                    queue of pushes
//   shard 1   order 3 | order 1 | ...  step            queue of what rank 0 said
//
// A queue stands still while a step is over: what comes then belongs to the next one.

#include "base/alloc.h"
#include "job/dynamic/coder.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/wall_hurry.h"
#include "job/dynamic/wall_proxy.h"

#include <math.h>
#include <string.h>

tt_status tt__wall_keep(tt_dynamic *d, const tt__wall_letter *head)
{
    tt__wall_event *e = tt_alloc(sizeof *e);
    if (e == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for messages");
    e->head = *head;
    *d->wall->last = e;
    d->wall->last = &e->next;
    return TT_OK;
}

void tt__wall_begin(tt_dynamic *d, int32_t worker)
{
    const int32_t i = worker - d->first;
    d->own[i].is_computed = false;
    d->own[i].left_out = 0;
    d->own[i].number++;
    d->wall->got[i] = tt__wall_now(d);
}

tt_status tt__wall_answered(tt_dynamic *d, int32_t worker)
{
    if (--d->wall->missing[worker - d->first] > 0)
        return TT_OK;
    tt__wall_begin(d, worker);
    return d->tree != NULL ? tt__wall_give(d, tt__pusher(d, worker)) : TT_OK;
}

// A worker that goes on computes where its last gradient lies. One that is still to be used
// moves (exchange.clock=quorum).
static tt_status move_waiting(tt_dynamic *d, int32_t pusher)
{
    for (int32_t i = 0; i < d->server.n_pending; i++) {
        const tt_server_push *push = &d->server.pending[i];
        if (push->worker == pusher)
            TT_TRY(tt__wall_settle(d, push->slot));
    }
    return TT_OK;
}

// Workers of whom one pushes: a group, or one alone.
static int32_t pushed_by(const tt_dynamic *d, int32_t pusher, int32_t *n_out)
{
    int32_t first = pusher;
    *n_out = 1;
    if (d->tree != NULL)
        tt_tree_group(d->tree, pusher, &first, n_out);
    return first;
}

static tt_status answer(tt_dynamic *d, int32_t pusher)
{
    int32_t n = 0;
    const int32_t worker = pushed_by(d, pusher, &n);
    TT_TRY(move_waiting(d, pusher));
    void *weights = tt__dynamic_weights(d, pusher);
    const tt__wall_letter head = {.kind = TT_WALL_ANSWER,
                                  .worker = worker,
                                  .is_bare = d->is_one,
                                  .bytes = tt_vector_bytes(&d->shard),
                                  .v = {[TT_WALL_RATE] = d->job->lr}};
    const tt__dynamic_worker *own = tt__worker_own(d, worker);
    tt__wall_copy *snapshot = NULL;
    for (int32_t i = worker; i < worker + n; i++) {
        if (tt__wall_is_first(d))
            tt_drawn_begin(&d->drawn, i);
        d->rate[i] = d->job->lr;
    }
    if (own == NULL && d->is_one)
        return tt__wall_send(d, tt__worker_rank(d, worker), &head, NULL, NULL);
    if (own == NULL) {
        TT_TRY(tt__wall_snapshot(d, weights, &snapshot));
        return tt__wall_send(d, tt__worker_rank(d, worker), &head,
                             snapshot->data, snapshot);
    }
    TT_TRY(tt__worker_fetch(d, worker, d->job->peers.rank, weights));
    return tt__wall_answered(d, worker);
}

static tt_status follow_rules(tt_dynamic *d)
{
    for (;;) {
        int32_t pusher = -1;
        double change = 0;
        switch (tt_server_next(&d->server, &pusher)) {
        case TT_SERVER_APPLY:
            TT_TRY(tt__dynamic_apply(d, &change));
            tt_server_applied(&d->server, change);
            d->n_updates++;
            break;
        case TT_SERVER_ANSWER:
            TT_TRY(answer(d, pusher));
            break;
        default:
            return TT_OK;
        }
    }
}

// The gradient that has come is the server's; what lay there is room for the next one.
static tt_status put(tt_dynamic *d, int32_t worker, int32_t slot,
                     const double head[TT_HEAD_N])
{
    tt__wall_inbox *inbox = &d->wall->inbox[worker];
    void *room = d->slot[slot];
    memcpy(d->slot_head[slot].v, head, sizeof(tt__push_head));
    d->lent[slot] = inbox->shown;
    d->wall->is_bare[slot] = inbox->is_bare;
    if (inbox->shown != NULL)
        return TT_OK;
    if (!tt__shards_decode(d)) {
        d->slot[slot] = inbox->data;
        inbox->data = room;
        return TT_OK;
    }
    TT_TRY(tt__dynamic_room(d, slot));
    return tt__coder_decode(d, worker, d->server.worker[worker].pushed - 1,
                            inbox->data, inbox->bytes, d->slot[slot]);
}

static tt_status send_order(tt_dynamic *d, int32_t worker,
                            const double head[TT_HEAD_N])
{
    tt__wall_letter order = {.kind = TT_WALL_ORDER, .worker = worker};
    memcpy(order.v, head, sizeof(tt__push_head));
    for (int32_t i = 0; i < d->wall->n_lines; i++)
        if (tt__keeps_weights(d, d->wall->line[i].peer))
            TT_TRY(tt__wall_send(d, d->wall->line[i].peer, &order, NULL, NULL));
    return TT_OK;
}

static tt_status end_step(tt_dynamic *d)
{
    tt_step_result r = {.norm = d->norm};
    tt__dynamic_add_up(d, &r);
    r.stop = d->wall->wants_stop;
    r.save = d->job->wants_save && !r.stop;
    d->wall->is_over = true;
    d->wall->step = r;
    const tt__wall_letter head = {
        .kind = TT_WALL_STEP,
        .v = {r.loss, r.count, r.correct, [TT_WALL_NORM] = r.norm,
              [TT_WALL_STOP] = r.stop, [TT_WALL_SAVE] = r.save}};
    for (int32_t i = 0; i < d->wall->n_lines; i++)
        TT_TRY(tt__wall_send(d, d->wall->line[i].peer, &head, NULL, NULL));
    return TT_OK;
}

static void hear_step(tt_dynamic *d, const double *v)
{
    d->wall->is_over = true;
    d->wall->step = (tt_step_result){.loss = v[0],
                                     .count = v[1],
                                     .correct = v[2],
                                     .norm = v[TT_WALL_NORM],
                                     .stop = v[TT_WALL_STOP] != 0,
                                     .save = v[TT_WALL_SAVE] != 0};
}

// Rank 0: the books, of a gradient whose head this is.
static void note(tt_dynamic *d, int32_t worker, const double *v,
                 bool is_dropped)
{
    double *tally = &d->tally[(int64_t)d->n_delivered * TT_HEAD_N];
    const double now = tt__wall_now(d);
    const double joined = fmax(d->drawn.worker[worker].turn.began,
                               now - v[TT_WALL_HELD]); // its group
    d->wall->wants_stop = d->wall->wants_stop || v[TT_WALL_STOP] != 0;
    tt_drawn_arrived(&d->drawn, worker, joined, v[TT_WALL_WAITED],
                     v[TT_WALL_COMPUTED]);
    tt_drawn_hop(&d->drawn, worker, now, now);
    memcpy(tally, v, sizeof(tt__push_head));
    tt__dynamic_note(d, worker, is_dropped);
    tt_str_addf(&d->record, "%d %.6f", worker, now);
    if (d->tree != NULL)
        tt_str_addf(&d->record, " %d", v[TT_HEAD_REFUSED] != 0);
    else if (v[TT_WALL_LEFT] > 0)
        tt_str_addf(&d->record, " %.0f", v[TT_WALL_LEFT]);
    tt_str_addf(&d->record, "\n");
}

// Rank 0: whether it is good; its proxy has judged what is in a sum.
static void judge(tt_dynamic *d, tt__wall_letter *head, bool is_dropped)
{
    int32_t n = 0;
    const int32_t worker = (int32_t)head->worker;
    if (d->tree == NULL) {
        tt__dynamic_judge(d, head->v);
        note(d, worker, head->v, is_dropped);
        return;
    }
    const int32_t first = pushed_by(d, tt__pusher(d, worker), &n);
    for (int32_t i = first; i < first + n; i++)
        note(d, i, tt__wall_head(d, i), is_dropped);
}

static tt_status deliver(tt_dynamic *d, tt__wall_letter *head)
{
    const int32_t worker = (int32_t)head->worker;
    const double began = tt__wall_now(d);
    int32_t slot = -1;
    const bool is_dropped =
        tt_server_deliver(&d->server, tt__pusher(d, worker), &slot);
    d->wall->inbox[worker].is_here = false;
    if (tt__wall_is_first(d)) {
        judge(d, head, is_dropped);
        TT_TRY(send_order(d, worker, head->v));
        TT_TRY(tt__hurry_say(d, worker));
    }
    if (!is_dropped)
        TT_TRY(put(d, worker, slot, head->v));
    TT_TRY(follow_rules(d));
    d->busy += tt__wall_now(d) - began;
    return tt__wall_is_first(d) && d->n_delivered == d->workers ? end_step(d)
                                                                : TT_OK;
}

static bool is_ready(const tt_dynamic *d)
{
    const tt__wall_event *e = d->wall->queue;
    return !d->wall->is_over && e != NULL &&
           (e->head.kind == TT_WALL_STEP ||
            d->wall->inbox[e->head.worker].is_here);
}

tt_status tt__wall_follow(tt_dynamic *d)
{
    struct tt__wall *w = d->wall;
    tt_status status = TT_OK;
    if (w->is_following) // in the middle of an update
        return TT_OK;
    w->is_following = true;
    while (status == TT_OK && is_ready(d)) {
        tt__wall_event *e = w->queue;
        tt__wall_letter head = e->head;
        w->queue = e->next;
        if (w->queue == NULL)
            w->last = &w->queue;
        tt_free(e);
        if (head.kind == TT_WALL_STEP)
            hear_step(d, head.v);
        else
            status = deliver(d, &head);
    }
    w->is_following = false;
    return status;
}
