// crowd_step - a delivery of a worker with weights of its own: what the rules list, on
// numbers.

#include "job/dynamic/crowd.h"
#include "job/dynamic/dynamic_math.h"

#include <math.h>
#include <string.h>

// ---- where ---------------------------------------------------------------

static int32_t worker_of(const tt_dynamic *d, tt_peer_place place)
{
    return place.what == TT_PEER_BOX ? place.of / d->crowd->rules.boxes
                                     : place.of;
}

int32_t tt__crowd_rank(const tt_dynamic *d, tt_peer_place place)
{
    return place.what >= TT_PEER_MIDDLE
               ? 0
               : tt__worker_rank(d, worker_of(d, place));
}

void *tt__crowd_at(const tt_dynamic *d, tt_peer_place place)
{
    const int32_t each = place.what == TT_PEER_BOX ? d->crowd->rules.boxes : 1;
    if (tt__crowd_rank(d, place) != d->job->peers.rank)
        return NULL;
    if (place.what == TT_PEER_GRADIENT)
        return d->own[place.of - d->first].gradient;
    return place.what >= TT_PEER_MIDDLE
               ? d->crowd->v[place.what][0]
               : d->crowd->v[place.what][place.of - d->first * each];
}

// ---- mixing --------------------------------------------------------------

static void mix_here(const tt_vector_span *s, const tt_peer_op *op,
                     const void *x, void *y)
{
    if (op->b == 0)
        memmove(y, x, (size_t)tt_vector_bytes(s));
    if (op->b == 0 && op->a != 1)
        tt_vector_scale(s, op->a, y);
    if (op->b == 1)
        tt_vector_add(s, op->a, x, y);
    else if (op->b != 0)
        tt_vector_mix(s, op->a, x, op->b, y);
}

static tt_status mix(tt_dynamic *d, const tt_vector_span *s,
                     const tt_peer_op *op)
{
    void *x = tt__crowd_at(d, op->x), *y = tt__crowd_at(d, op->y);
    const tt__post post = {tt__crowd_rank(d, op->x), tt__crowd_rank(d, op->y),
                           x, d->crowd->room, tt_vector_bytes(s)};
    TT_TRY(tt__post_all(d, &post, 1));
    if (y != NULL)
        mix_here(s, op, x != NULL ? x : d->crowd->room, y);
    return TT_OK;
}

// ---- a step of a worker's optimiser --------------------------------------

static tt_status write_all(const tt_dynamic *d, void *weights, void *gradient)
{
    tt_exec *exec = d->job->exec;
    int64_t at = d->all.n;
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        if (p->is_buffer)
            continue;
        TT_TRY(tt__dynamic_write_part(d, exec, &p->tensor,
                                      tt__element_at(d, weights, p->at)));
        TT_TRY(tt__dynamic_write_part(d, exec, &p->grad,
                                      tt__element_at(d, gradient, p->at)));
    }
    for (int32_t i = 0; i < d->crowd->n_states; i++) {
        TT_TRY(tt__dynamic_write_part(d, exec, &d->crowd->state[i],
                                      tt__element_at(d, weights, at)));
        at += d->crowd->state[i].count;
    }
    return TT_OK;
}

// Statistics move by what the gradient's forward pass has moved them.
static tt_status read_all(const tt_dynamic *d, void *weights, void *gradient)
{
    tt_exec *exec = d->job->exec;
    int64_t at = d->all.n;
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        const tt_vector_span n = {d->all.is_wide, p->tensor.count};
        char *to = tt__element_at(d, weights, p->at);
        if (p->is_buffer)
            tt_vector_add(&n, 1, tt__element_at(d, gradient, p->at), to);
        else
            TT_TRY(tt__dynamic_read_part(d, exec, &p->tensor, to));
    }
    for (int32_t i = 0; i < d->crowd->n_states; i++) {
        TT_TRY(tt__dynamic_read_part(d, exec, &d->crowd->state[i],
                                     tt__element_at(d, weights, at)));
        at += d->crowd->state[i].count;
    }
    return TT_OK;
}

static tt_vector_span weights_of(const tt_dynamic *d)
{
    tt_vector_span s = {d->all.is_wide, 0};
    for (int32_t i = 0; i < d->n_parts && !d->part[i].is_buffer; i++)
        s.n += d->part[i].tensor.count;
    return s;
}

static void clip(const tt_dynamic *d, double count, void *gradient)
{
    const tt_vector_span n = weights_of(d);
    const double most = d->job->optim_params.clip;
    if (most <= 0)
        return;
    const double norm = sqrt(tt_vector_squares(&n, gradient)) / count;
    const double factor = most / (norm + 1e-6); // as ops/optim/clip.c
    if (factor < 1)
        tt_vector_scale(&n, factor, gradient);
}

static tt_status set(const tt_job *job, const char *name, double value)
{
    return tt_is(tt_graph_find(job->graph, name))
               ? tt_exec_set_scalar(job->exec, name, value)
               : TT_OK;
}

static tt_status set_scalars(const tt_dynamic *d, int64_t number, double count)
{
    const tt_job *job = d->job;
    const tt_val v = tt_graph_output_find(job->graph, "count");
    char bytes[8];
    tt_dtype_store(job->graph->value[v.id].type.dtype, bytes, 0, count);
    TT_TRY(tt_exec_write(job->exec, v, bytes));
    TT_TRY(set(job, "lr", d->crowd->lr));
    TT_TRY(set(job, "step", (double)number));
    TT_TRY(set(job, "skip", 0));
    TT_TRY(set(job, "seed", (double)job->options.seed));
    return set(job, "samples", (double)job->options.batch);
}

tt_status tt__crowd_step(tt_dynamic *d, int32_t worker, int64_t number, void *x)
{
    tt__dynamic_worker *w = tt__worker_own(d, worker);
    if (w == NULL || w->head.v[TT_HEAD_REFUSED] != 0)
        return TT_OK;
    const double count = d->crowd->count[worker - d->first];
    clip(d, count, w->gradient);
    TT_TRY(write_all(d, x, w->gradient));
    TT_TRY(set_scalars(d, number, count));
    TT_TRY(tt_exec_run_part(d->job->exec, TT_RUN_UPDATE, NULL, NULL, NULL));
    return read_all(d, x, w->gradient);
}

static tt_status step(tt_dynamic *d, int32_t worker)
{
    return tt__worker_own(d, worker) == NULL
               ? TT_OK
               : tt__crowd_step(
                     d, worker, d->crowd->rules.worker[worker].number,
                     d->crowd->v[TT_PEER_WEIGHTS][worker - d->first]);
}

static void take_mean(const tt_dynamic *d, int32_t worker)
{
    const tt_vector_span n = weights_of(d);
    const tt__dynamic_worker *w = tt__worker_own(d, worker);
    if (w == NULL)
        return;
    double *count = &d->crowd->count[worker - d->first];
    tt_vector_scale(&n, 1 / *count, w->gradient);
    *count = 1;
}

tt_status tt__crowd_run(tt_dynamic *d, const tt_vector_span *span)
{
    const tt_peer_state *rules = &d->crowd->rules;
    for (int32_t i = 0; i < rules->n_ops; i++) {
        const tt_peer_op *op = &rules->op[i];
        switch (op->what) {
        case TT_PEER_MIX:
            TT_TRY(mix(d, span, op));
            break;
        case TT_PEER_MEAN:
            take_mean(d, op->y.of);
            break;
        case TT_PEER_STEP:
            TT_TRY(step(d, op->y.of));
            break;
        }
    }
    return TT_OK;
}

// ---- a delivery ----------------------------------------------------------

static void take_head(tt_dynamic *d, int32_t worker, const double *head)
{
    tt__dynamic_worker *w = tt__worker_own(d, worker);
    if (head == NULL)
        return;
    memcpy(&d->tally[(int64_t)d->n_delivered * TT_HEAD_N], head,
           sizeof(tt__push_head));
    if (w == NULL)
        return;
    w->head.v[TT_HEAD_REFUSED] = head[TT_HEAD_REFUSED];
    d->crowd->count[worker - d->first] = head[TT_HEAD_COUNT];
    if (head[TT_HEAD_REFUSED] != 0) // nothing bad goes to others
        memset(w->gradient, 0, (size_t)tt_vector_bytes(&d->all));
}

double tt__crowd_norm(const tt_dynamic *d)
{
    const double *v = &d->tally[(int64_t)(d->n_delivered - 1) * TT_HEAD_N];
    return sqrt(v[TT_HEAD_SQUARES]) / v[TT_HEAD_COUNT];
}

static void go_on(tt_dynamic *d, int32_t worker)
{
    tt__dynamic_worker *w = tt__worker_own(d, worker);
    tt_drawn_begin(&d->drawn, worker);
    if (w == NULL)
        return;
    memcpy(w->weights, d->crowd->v[TT_PEER_WEIGHTS][worker - d->first],
           (size_t)tt_vector_bytes(&d->all));
    w->is_computed = false;
    w->number++;
}

tt_status tt__crowd_follow(tt_dynamic *d, int32_t worker, const double *head)
{
    take_head(d, worker, head);
    tt__dynamic_note(d, worker, false);
    tt_server_note(&d->server, worker,
                   tt_peer_deliver(&d->crowd->rules, worker));
    TT_TRY(tt__crowd_run(d, &d->all));
    go_on(d, worker);
    return TT_OK;
}

tt_status tt__crowd_deliver(tt_dynamic *d, int32_t worker)
{
    tt__dynamic_worker *w = tt__worker_own(d, worker);
    d->crowd->lr = d->job->lr;
    if (w == NULL)
        return tt__crowd_follow(d, worker, NULL);
    TT_TRY(tt__worker_compute(d, worker));
    tt__dynamic_judge(d, w->head.v);
    return tt__crowd_follow(d, worker, w->head.v);
}
