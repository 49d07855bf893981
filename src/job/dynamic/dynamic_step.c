// dynamic_step - one step of a job with workers: as many deliveries as there are workers.
//
//   who is next -> its gradient to the server -> updates and answers, by the rules
//
// A step has the samples of a batch under every clock, so logs, evaluations and checkpoints
// mean what they mean elsewhere. All ranks follow the same list; each does its part of it.

#include "base/clock.h"
#include "job/dynamic/hog.h"
#include "job/dynamic/proxy.h"
#include "job/dynamic/wall.h"
#include "job/federated/federated.h"

#include <math.h>
#include <string.h>

// What ranks tell each other after a step, besides the deliveries.
enum { STOP, SAVE, NORM, N_WISHES };

static tt_status apply(tt_dynamic *d, double *change_out)
{
    const double began = tt_clock_seconds();
    TT_TRY(tt__dynamic_apply(d, change_out));
    d->busy += tt_clock_seconds() - began;
    d->n_updates++;
    return TT_OK;
}

static void begin(tt_dynamic *d, int32_t worker)
{
    d->rate[worker] = d->job->lr;
    tt_drawn_begin(&d->drawn, worker);
}

// Weights go to a worker, or by its proxy to a group of them.
static tt_status answer(tt_dynamic *d, int32_t pusher)
{
    int32_t first = pusher, n = 1;
    if (d->tree != NULL)
        tt_tree_group(d->tree, pusher, &first, &n);
    TT_TRY(tt__dynamic_answer(d, first));
    if (d->tree != NULL)
        TT_TRY(tt__proxy_hand_out(d, pusher));
    for (int32_t i = first; i < first + n; i++)
        begin(d, i);
    return TT_OK;
}

static tt_status follow_rules(tt_dynamic *d)
{
    for (;;) {
        int32_t worker = -1;
        double change = 0;
        switch (tt_server_next(&d->server, &worker)) {
        case TT_SERVER_APPLY:
            TT_TRY(apply(d, &change));
            tt_server_applied(&d->server, change);
            break;
        case TT_SERVER_ANSWER:
            TT_TRY(answer(d, worker));
            break;
        default:
            return TT_OK;
        }
    }
}

// The sum of a proxy is at the server.
static tt_status deliver_sum(tt_dynamic *d, int32_t proxy, double now)
{
    int32_t first = 0, n = 0, slot = -1;
    tt_tree_group(d->tree, proxy, &first, &n);
    for (int32_t i = first; i < first + n; i++)
        tt_drawn_hop(&d->drawn, i, now - d->tree->rules.delay, now);
    if (tt_server_deliver(&d->server, proxy, &slot)) {
        tt__proxy_waste(d, proxy);
    } else {
        TT_TRY(tt__proxy_add_up(d, proxy));
        TT_TRY(tt__dynamic_take(d, first, slot));
    }
    return follow_rules(d);
}

// By a list nothing is on its way.
static double until(const tt_dynamic *d)
{
    return d->list != NULL ? HUGE_VAL : tt_drawn_due(&d->drawn);
}

// Sums that are at the server before the next gradient is at a proxy.
static tt_status follow_tree(tt_dynamic *d)
{
    double now = 0;
    int32_t proxy = -1;
    while ((proxy = tt_tree_next(d->tree, until(d), &now)) >= 0)
        TT_TRY(deliver_sum(d, proxy, now));
    return TT_OK;
}

static tt_status deliver(tt_dynamic *d, int32_t worker)
{
    int32_t slot = -1;
    bool is_dropped = false;
    tt__dynamic_worker *own = tt__worker_own(d, worker);
    if (d->tree != NULL)
        tt_tree_arrive(d->tree, worker, d->drawn.now);
    else
        is_dropped = tt_server_deliver(&d->server, worker, &slot);
    if (own != NULL) {
        TT_TRY(tt__worker_compute(d, worker));
        tt__list_judge(d, own->head.v);
        memcpy(&d->tally[(int64_t)d->n_delivered * TT_HEAD_N], own->head.v,
               sizeof(tt__push_head));
    }
    tt__dynamic_note(d, worker, is_dropped);
    if (slot >= 0)
        TT_TRY(tt__dynamic_take(d, worker, slot));
    return d->tree != NULL ? follow_tree(d) : follow_rules(d);
}

// ---- results -------------------------------------------------------------

void tt__dynamic_note(tt_dynamic *d, int32_t worker, bool is_dropped)
{
    tt_turn *turn = &d->turn[d->n_delivered];
    d->delivered[d->n_delivered++] = worker;
    *turn = d->drawn.worker[worker].turn;
    if (is_dropped)
        tt_diary_waste(&d->drawn.diary, turn);
}

void tt__dynamic_add_up(tt_dynamic *d, tt_step_result *r)
{
    for (int32_t i = 0; i < d->n_delivered; i++) {
        const double *v = &d->tally[(int64_t)i * TT_HEAD_N];
        d->up[d->delivered[i]] += v[TT_HEAD_BYTES];
        if (d->tree != NULL)
            d->tree->is_refused[d->delivered[i]] = v[TT_HEAD_REFUSED] != 0;
        if (v[TT_HEAD_REFUSED] != 0) {
            d->n_refused[d->delivered[i]]++;
            tt_diary_waste(&d->drawn.diary, &d->turn[i]);
            continue;
        }
        r->loss += v[TT_HEAD_LOSS];
        r->count += v[TT_HEAD_COUNT];
        r->correct += v[TT_HEAD_CORRECT];
    }
    r->loss = r->count > 0 ? r->loss / r->count : (double)NAN;
}

static tt_status tell(tt_dynamic *d, tt_step_result *result_out)
{
    const tt_job *job = d->job;
    const int64_t n = (int64_t)d->workers * TT_HEAD_N;
    double *wish = &d->tally[n];
    wish[STOP] = job->wants_stop ? 1 : 0;
    wish[SAVE] = job->wants_save ? 1 : 0;
    wish[NORM] = tt_peers_is_first(&job->peers) ? d->norm : 0;
    TT_TRY(tt__post_sum(d, d->tally, n + N_WISHES));
    tt_step_result r = {.norm = wish[NORM]};
    tt__dynamic_add_up(d, &r);
    r.stop = wish[STOP] > 0;
    r.save = wish[SAVE] > 0 && !r.stop;
    if (d->crowd != NULL)
        r.norm = tt__crowd_norm(d);
    *result_out = r;
    return TT_OK;
}

// One that still computes gives the micro-batches that it has finished.
static int32_t hurry(tt_dynamic *d)
{
    const int64_t all = d->job->options.accumulate;
    int32_t worker = 0;
    while (d->server.worker[worker].is_waiting)
        worker++;
    tt__dynamic_worker *own = tt__worker_own(d, worker);
    const double part = tt_drawn_hurry(&d->drawn, worker);
    if (own != NULL)
        own->left_out = all - (int64_t)(part * (double)all);
    return worker;
}

static tt_status next(tt_dynamic *d, int32_t *worker_out)
{
    if (d->list != NULL)
        return tt__list_next(d, worker_out);
    if (tt_clock_is_hurried(&d->server)) {
        *worker_out = hurry(d);
        return TT_OK;
    }
    *worker_out = tt_drawn_next(&d->drawn);
    return *worker_out >= 0
               ? TT_OK
               : tt_fail(TT_ERR_STATE, "all %d workers wait for each other",
                         d->workers);
}

static void forget_step(tt_dynamic *d)
{
    const int64_t n = (int64_t)d->workers * TT_HEAD_N + N_WISHES;
    d->n_delivered = 0;
    memset(d->tally, 0, (size_t)n * sizeof *d->tally);
}

tt_status tt__dynamic_step(tt_job *job, tt_job_feed_fn *feed, void *user,
                           tt_step_result *result_out)
{
    TT_TRY(tt__dynamic_open(job));
    tt_dynamic *d = job->dynamic;
    const double began = tt_clock_seconds();
    d->feed = feed;
    d->feed_user = user;
    if (d->federated != NULL) {
        TT_TRY(tt__federated_step(d, result_out));
        return tt__post_alive(d);
    }
    if (d->crowd == NULL || d->crowd->wall == NULL) // who may be ahead
        forget_step(d);
    if (job->peers.wire != NULL)
        tt_comm_wire_step(job->peers.wire, job->step + 1);
    if (d->hog != NULL)
        TT_TRY(tt__hog_step(d, result_out));
    else if (d->is_live)
        TT_TRY(d->crowd != NULL ? tt__crowd_wall_step(d, result_out)
                                : tt__wall_step(d, result_out));
    while (!d->is_live && d->n_delivered < d->workers) {
        int32_t worker = -1;
        TT_TRY(next(d, &worker));
        TT_TRY(d->crowd != NULL ? tt__crowd_deliver(d, worker)
                                : deliver(d, worker));
    }
    job->step++;
    if (!d->is_live)
        TT_TRY(tell(d, result_out));
    d->seconds += tt_clock_seconds() - began;
    TT_TRY(tt__post_alive(d));
    return result_out->count > 0
               ? TT_OK
               : tt_fail(TT_ERR_STATE,
                         "all %d gradients of step %lld were refused: they are "
                         "not finite, longer than exchange.limit=%g, or of a "
                         "loss beyond the limit of train.spike",
                         d->workers, (long long)job->step, d->params->limit);
}
