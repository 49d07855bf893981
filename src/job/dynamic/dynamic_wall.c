// dynamic_wall - the wall clock: gradients are taken in the order in which they come, and
// that order is kept.
//
// Rank 0 has the server, and workers unless exchange.servers=1. Every rank goes round a loop: take what has come, compute a gradient
// if a worker has weights, else wait. Rank 0 also looks between the kernels of its own
// gradients, so nobody waits for them.
//
//   to rank 0      PUSH   a gradient, and whether its rank wants to stop
//                  FIN    nothing more until the ranks have met
//   from rank 0    ANSWER weights
//                  STEP   as many deliveries as workers: the results of a step
//
// A rank's step is over when it hears of it, and nobody waits for anybody until the next step
// after which all ranks meet (logs, evaluations, checkpoints). Before they meet, ranks stop
// computing new gradients and rank 0 waits for their last words; so the transport is empty
// and the wire can have it.
//
// What has come between the end of a step and the meeting waits in a queue. A worker whose
// gradient waits there counts as one that still computes: a checkpoint has its weights.
//
// The record is the list of who delivered. Rules are a function of it (exchange/server.h), so
// it is all that a repetition needs.

#include "base/alloc.h"
#include "base/clock.h"
#include "job/dynamic/dynamic.h"
#include "plan/seconds.h"

#include <math.h>
#include <string.h>
#include <time.h>

enum { TAG = 0x7077 };

enum { PUSH, ANSWER, STEP, FIN };

enum {
    R_STEP = TT_HEAD_N,
    R_NORM,
    R_STOP,
    R_SAVE,
    R_RATE,
    R_WAITED, // a push's: seconds from weights to computing, and of that
    R_COMPUTED,
    R_N
};

typedef struct letter {
    int64_t kind, worker, bytes; // of what follows
    double v[R_N];               // a push's head; a step's results
} letter;

typedef struct parcel { // on its way out, or waiting to be taken
    letter head;
    char *data;
    tt_msg msg[2];
    struct parcel *next;
} parcel;

typedef struct line { // from another rank
    int32_t peer;
    bool is_open, has_head; // a receive is posted; its head is here
    letter head;
    char *data;
    tt_msg msg;
} line;

struct tt__wall {
    int32_t n_lines;
    line *line;
    parcel *out;           // not yet gone
    parcel *queue, **last; // pushes that have come and wait
    int32_t n_fins;
    bool wants_stop;      // some rank
    bool is_over;         // the step
    tt_step_result *step; // results that were heard and not yet given back
    int32_t n_steps;
    double began;   // tt_clock_seconds, less what was between steps
    double elapsed; // in all steps, also of earlier starts
    double *got;    // per worker of this rank: when its weights came
};

// Seconds of steps so far: evaluations and checkpoints do not count.
static double now(const tt_dynamic *d)
{
    return tt_clock_seconds() - d->wall->began;
}

static bool is_server(const tt_dynamic *d)
{
    return tt_peers_is_first(&d->job->peers);
}

static tt_status no_memory(void)
{
    return tt_fail(TT_ERR_NOMEM, "no memory for messages");
}

// ---- out -----------------------------------------------------------------

static tt_status send(tt_dynamic *d, tt_comm *comm, int32_t to,
                      const letter *head, const void *data)
{
    parcel *p = tt_alloc(sizeof *p);
    if (p == NULL)
        return no_memory();
    p->head = *head;
    p->next = d->wall->out;
    d->wall->out = p;
    p->msg[0] = (tt_msg){
        .peer = to, .tag = TAG, .data = &p->head, .bytes = sizeof p->head};
    p->msg[1].is_done = true;
    TT_TRY(tt_comm_send(comm, &p->msg[0]));
    if (head->bytes == 0)
        return TT_OK;
    p->data = tt_alloc(head->bytes);
    if (p->data == NULL)
        return no_memory();
    memcpy(p->data, data, (size_t)head->bytes);
    p->msg[1] =
        (tt_msg){.peer = to, .tag = TAG, .data = p->data, .bytes = head->bytes};
    return tt_comm_send(comm, &p->msg[1]);
}

static void free_parcel(parcel *p)
{
    tt_free(p->data);
    tt_free(p);
}

static void reap(tt_dynamic *d)
{
    for (parcel **p = &d->wall->out; *p != NULL;) {
        parcel *gone = *p;
        if (!gone->msg[0].is_done || !gone->msg[1].is_done) {
            p = &gone->next;
            continue;
        }
        *p = gone->next;
        free_parcel(gone);
    }
}

// ---- the server ----------------------------------------------------------

static tt_status answer(tt_dynamic *d, tt_comm *comm, int32_t worker)
{
    const int32_t to = tt__worker_rank(d, worker);
    const void *weights = tt__dynamic_weights(d, worker);
    const letter head = {.kind = ANSWER,
                         .worker = worker,
                         .bytes = tt_vector_bytes(&d->all),
                         .v = {[R_RATE] = d->job->lr}};
    tt__dynamic_worker *w = tt__worker_own(d, worker);
    d->rate[worker] = d->job->lr;
    tt_drawn_begin(&d->drawn, worker);
    if (w == NULL)
        return send(d, comm, to, &head, weights);
    memcpy(w->weights, weights, (size_t)head.bytes);
    w->is_computed = false;
    w->number++;
    d->wall->got[worker - d->first] = now(d);
    return TT_OK;
}

static tt_status follow_rules(tt_dynamic *d, tt_comm *comm)
{
    for (;;) {
        int32_t worker = -1;
        double change = 0;
        switch (tt_server_next(&d->server, &worker)) {
        case TT_SERVER_APPLY:
            TT_TRY(tt__dynamic_apply(d, &change));
            tt_server_applied(&d->server, change);
            d->n_updates++;
            break;
        case TT_SERVER_ANSWER:
            TT_TRY(answer(d, comm, worker));
            break;
        default:
            return TT_OK;
        }
    }
}

static tt_status end_step(tt_dynamic *d, tt_comm *comm)
{
    const tt_job *job = d->job;
    tt_step_result r = {.norm = d->norm};
    tt__dynamic_add_up(d, &r);
    r.stop = d->wall->wants_stop;
    r.save = job->wants_save && !r.stop;
    d->wall->is_over = true;
    d->wall->step[d->wall->n_steps++] = r;
    const letter head = {.kind = STEP,
                         .v = {r.loss, r.count, r.correct, [R_NORM] = r.norm,
                               [R_STOP] = r.stop, [R_SAVE] = r.save}};
    for (int32_t to = 1; to < job->peers.size; to++)
        TT_TRY(send(d, comm, to, &head, NULL));
    return TT_OK;
}

// Takes over `data`, which is a whole gradient.
static tt_status deliver(tt_dynamic *d, tt_comm *comm, const letter *head,
                         char *data)
{
    const int32_t worker = (int32_t)head->worker;
    int32_t slot = -1;
    double *tally = &d->tally[(int64_t)d->n_delivered * TT_HEAD_N];
    const double began = now(d);
    const bool is_dropped = tt_server_deliver(&d->server, worker, &slot);
    d->wall->wants_stop = d->wall->wants_stop || head->v[R_STOP] != 0;
    tt_drawn_arrived(&d->drawn, worker, began, head->v[R_WAITED],
                     head->v[R_COMPUTED]);
    memcpy(tally, head->v, sizeof(tt__push_head));
    tt__dynamic_judge(d, tally);
    tt__dynamic_note(d, worker, is_dropped);
    tt_str_addf(&d->record, "%d %.6f\n", worker, began);
    if (!is_dropped) {
        tt_free(d->slot[slot]);
        d->slot[slot] = data;
        memcpy(d->slot_head[slot].v, tally, sizeof(tt__push_head));
    } else {
        tt_free(data);
    }
    TT_TRY(follow_rules(d, comm));
    d->busy += now(d) - began;
    return d->n_delivered == d->workers ? end_step(d, comm) : TT_OK;
}

static tt_status keep(tt_dynamic *d, const letter *head, char *data)
{
    parcel *p = tt_alloc(sizeof *p);
    if (p == NULL) {
        tt_free(data);
        return no_memory();
    }
    p->head = *head;
    p->data = data;
    *d->wall->last = p;
    d->wall->last = &p->next;
    return TT_OK;
}

static tt_status take_queue(tt_dynamic *d, tt_comm *comm)
{
    while (!d->wall->is_over && d->wall->queue != NULL) {
        parcel *p = d->wall->queue;
        char *data = p->data;
        d->wall->queue = p->next;
        if (d->wall->queue == NULL)
            d->wall->last = &d->wall->queue;
        const letter head = p->head;
        tt_free(p);
        TT_TRY(deliver(d, comm, &head, data));
    }
    return TT_OK;
}

// ---- in ------------------------------------------------------------------

static tt_status take_answer(tt_dynamic *d, const letter *head, char *data)
{
    const int32_t worker = (int32_t)head->worker;
    tt__dynamic_worker *w = tt__worker_own(d, worker);
    tt_free(w->weights);
    w->weights = data;
    w->is_computed = false;
    w->number++;
    d->rate[worker] = head->v[R_RATE];
    d->wall->got[worker - d->first] = now(d);
    d->server.worker[worker].is_waiting = false;
    return TT_OK;
}

static tt_status take_step(tt_dynamic *d, const letter *head)
{
    const double *v = head->v;
    d->wall->is_over = true;
    d->wall->step[d->wall->n_steps++] =
        (tt_step_result){.loss = v[0],
                         .count = v[1],
                         .correct = v[2],
                         .norm = v[R_NORM],
                         .stop = v[R_STOP] != 0,
                         .save = v[R_SAVE] != 0};
    return TT_OK;
}

static tt_status take(tt_dynamic *d, tt_comm *comm, line *l)
{
    const letter head = l->head;
    char *data = l->data;
    l->data = NULL;
    l->is_open = l->has_head = false;
    switch (head.kind) {
    case PUSH:
        TT_TRY(keep(d, &head, data));
        return take_queue(d, comm);
    case ANSWER:
        return take_answer(d, &head, data);
    case STEP:
        return take_step(d, &head);
    default:
        d->wall->n_fins++;
        return TT_OK;
    }
}

// A rank that has said its last word, or heard it, posts nothing: the next message is the
// wire's.
static bool may_post(const tt_dynamic *d, const line *l)
{
    if (is_server(d))
        return l->head.kind != FIN;
    return !d->wall->is_over;
}

static tt_status look(tt_dynamic *d, tt_comm *comm, bool *took)
{
    for (int32_t i = 0; i < d->wall->n_lines; i++) {
        line *l = &d->wall->line[i];
        if (!l->is_open && may_post(d, l)) {
            l->is_open = true;
            l->msg = (tt_msg){.peer = l->peer,
                              .tag = TAG,
                              .data = &l->head,
                              .bytes = sizeof l->head};
            TT_TRY(tt_comm_receive(comm, &l->msg));
        }
        if (!l->is_open || !l->msg.is_done)
            continue;
        *took = true;
        if (!l->has_head && l->head.bytes > 0) {
            l->has_head = true;
            l->data = tt_alloc(l->head.bytes);
            if (l->data == NULL)
                return no_memory();
            l->msg = (tt_msg){.peer = l->peer,
                              .tag = TAG,
                              .data = l->data,
                              .bytes = l->head.bytes};
            TT_TRY(tt_comm_receive(comm, &l->msg));
            continue;
        }
        TT_TRY(take(d, comm, l));
    }
    return TT_OK;
}

static tt_status turn(tt_dynamic *d, tt_comm *comm, bool *did)
{
    bool moved = false;
    *did = false;
    if (comm == NULL)
        return TT_OK;
    TT_TRY(comm->def->progress(comm, &moved));
    TT_TRY(look(d, comm, did));
    *did = *did || moved;
    reap(d);
    return TT_OK;
}

// ---- this rank's workers -------------------------------------------------

// Between the kernels of a gradient: what has come is taken meanwhile.
static tt_status glance(void *user)
{
    tt_dynamic *d = user;
    bool did = false;
    return d->comm != NULL && is_server(d) ? turn(d, d->comm, &did) : TT_OK;
}

// trial.pace: a gradient of this worker takes its modelled seconds.
static tt_status pace(tt_dynamic *d, int32_t worker, double began)
{
    const tt_plan *plan = d->job->plan;
    double seconds = 0;
    if (d->drawn.rules.speed == NULL)
        return TT_OK;
    for (int32_t i = 0; i < plan->n_order; i++)
        if (plan->segment[plan->order[i].segment].phase != TT_UPDATE)
            seconds += tt_plan_seconds(plan, plan->order[i].segment);
    const double until = began + seconds / d->drawn.rules.speed[worker];
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
        if (!d->own[i].is_computed &&
            !d->server.worker[d->first + i].is_waiting &&
            (at < 0 || got[i] < got[at]))
            at = i;
    return at;
}

static tt_status work(tt_dynamic *d, tt_comm *comm, bool *did)
{
    const int32_t i = whose_turn(d);
    *did = i >= 0;
    if (i < 0)
        return TT_OK;
    const int32_t worker = d->first + i;
    tt__dynamic_worker *w = &d->own[i];
    const double began = tt_clock_seconds(), busy = d->busy;
    TT_TRY(tt__worker_compute(d, worker));
    TT_TRY(pace(d, worker, began));
    const double start = began - d->wall->began, end = now(d);
    letter head = {.kind = PUSH,
                   .worker = worker,
                   .bytes = tt_vector_bytes(&d->all),
                   .v = {[R_STOP] = d->job->wants_stop,
                         [R_WAITED] = start - d->wall->got[i],
                         [R_COMPUTED] = end - start - (d->busy - busy)}};
    memcpy(head.v, w->head.v, sizeof(tt__push_head));
    if (!is_server(d)) {
        d->server.worker[worker].is_waiting = true;
        return send(d, comm, 0, &head, w->gradient);
    }
    char *copy = tt_alloc(head.bytes + 8);
    if (copy == NULL)
        return no_memory();
    memcpy(copy, w->gradient, (size_t)head.bytes);
    TT_TRY(keep(d, &head, copy));
    return take_queue(d, comm);
}

// ---- a step --------------------------------------------------------------

static bool computes(const tt_dynamic *d, int32_t rank)
{
    for (int32_t i = 0; i < d->workers; i++)
        if (tt__worker_rank(d, i) == rank && !d->server.worker[i].is_waiting)
            return true;
    return false;
}

// What this rank waits for: of the server, a rank that has not said its last word, first one
// that computes.
static const tt_msg *awaited(const tt_dynamic *d)
{
    const line *found = &d->wall->line[0];
    for (int32_t i = d->wall->n_lines - 1; is_server(d) && i >= 0; i--) {
        const line *l = &d->wall->line[i];
        if (l->head.kind != FIN &&
            (computes(d, l->peer) || !computes(d, found->peer) ||
             found->head.kind == FIN))
            found = l;
    }
    return &found->msg;
}

static tt_status rest(const tt_dynamic *d, tt_comm *comm, tt_rest *r)
{
    return comm == NULL ? tt_fail(TT_ERR_STATE, "all workers wait")
                        : tt_comm_turn(comm, awaited(d), r);
}

static tt_status go_on(tt_dynamic *d, tt_comm *comm)
{
    tt_rest r = {0};
    tt_status status = TT_OK;
    while (status == TT_OK && !d->wall->is_over) {
        bool did = false, worked = false;
        status = turn(d, comm, &did);
        if (status == TT_OK && !d->wall->is_over)
            status = work(d, comm, &worked);
        if (status == TT_OK && !did && !worked && !d->wall->is_over)
            status = rest(d, comm, &r);
        else if (comm != NULL)
            tt_comm_rested(comm, &r);
    }
    return status;
}

// All that was sent is gone, and all last words are here.
static bool have_met(const tt_dynamic *d)
{
    const int32_t others = d->job->peers.size - 1;
    return d->wall->out == NULL && (!is_server(d) || d->wall->n_fins == others);
}

static tt_status meet(tt_dynamic *d, tt_comm *comm, bool meets)
{
    tt_rest r = {0};
    const letter fin = {.kind = FIN};
    tt_status status = TT_OK;
    if (comm == NULL || !meets)
        return TT_OK;
    if (!is_server(d))
        status = send(d, comm, 0, &fin, NULL);
    while (status == TT_OK && !have_met(d)) {
        bool did = false;
        status = turn(d, comm, &did);
        if (did)
            tt_comm_rested(comm, &r);
        else if (status == TT_OK && !have_met(d))
            status = rest(d, comm, &r);
    }
    tt_comm_rested(comm, &r);
    d->wall->n_fins = 0;
    for (int32_t i = 0; i < d->wall->n_lines; i++)
        d->wall->line[i].head.kind = PUSH;
    return status;
}

static void begin_step(tt_dynamic *d)
{
    d->wall->is_over = false;
    d->n_delivered = 0;
    d->wall->n_steps = 0;
    d->wall->wants_stop = false;
}

tt_status tt__wall_step(tt_dynamic *d, tt_step_result *result_out)
{
    tt_job *job = d->job;
    tt_comm *comm =
        job->peers.size > 1 ? tt_comm_wire_borrow(job->peers.wire) : NULL;
    d->wall->began = tt_clock_seconds() - d->wall->elapsed;
    begin_step(d);
    d->comm = comm;
    tt_status status = is_server(d) ? take_queue(d, comm) : TT_OK;
    if (status == TT_OK)
        status = go_on(d, comm);
    if (status == TT_OK) {
        *result_out = d->wall->step[0];
        status =
            meet(d, comm, job->meets || result_out->stop || result_out->save);
    }
    if (status != TT_OK && comm != NULL)
        comm->def->abandon(comm);
    d->comm = NULL;
    d->wall->elapsed = now(d);
    if (comm != NULL)
        tt_comm_wire_give_back(job->peers.wire);
    return status;
}

tt_status tt__wall_open(tt_dynamic *d)
{
    const tt_peers *peers = &d->job->peers;
    struct tt__wall *w = tt_arena_alloc(d->arena, sizeof *w);
    if (w == NULL)
        return TT_ERR_NOMEM;
    d->wall = w;
    w->last = &w->queue;
    w->got = tt_arena_alloc(d->arena, (d->n_own + 1) * (int64_t)sizeof *w->got);
    w->n_lines = peers->size == 1 ? 0 : is_server(d) ? peers->size - 1 : 1;
    w->line =
        tt_arena_alloc(d->arena, (w->n_lines + 1) * (int64_t)sizeof *w->line);
    w->step = tt_arena_alloc(d->arena, 2 * (int64_t)sizeof *w->step);
    if (w->line == NULL || w->step == NULL || w->got == NULL)
        return TT_ERR_NOMEM;
    for (int32_t i = 0; i < w->n_lines; i++)
        w->line[i].peer = is_server(d) ? i + 1 : 0;
    tt_exec_between(d->exec, glance, d);
    return TT_OK;
}

void tt__wall_resume(tt_dynamic *d)
{
    if (d->wall == NULL)
        return;
    d->wall->elapsed = d->drawn.now;
    for (int32_t i = 0; i < d->n_own; i++)
        d->wall->got[i] = d->drawn.now;
}

void tt__wall_close(tt_dynamic *d)
{
    if (d->wall == NULL)
        return;
    for (int32_t i = 0; d->wall->line != NULL && i < d->wall->n_lines; i++)
        tt_free(d->wall->line[i].data);
    for (parcel *p = d->wall->out, *next; p != NULL; p = next) {
        next = p->next;
        free_parcel(p);
    }
    for (parcel *p = d->wall->queue, *next; p != NULL; p = next) {
        next = p->next;
        free_parcel(p);
    }
}
