// dynamic_worker - the gradient of a worker's next batch at the weights that it has.
//
// A worker's k-th batch is the k-th step's samples [i b, (i + 1) b), whoever computes it
// and when. So a gradient is a pure function of (weights, worker, number), and it does not
// matter when this rank gets round to it: as late as its delivery, or while it waits for
// something else.
//
// Local steps. With h of them a worker makes h steps of plain descent by itself and pushes
// the sum of their mean gradients: what it has moved, divided by its rate. The server's
// optimiser takes that for a gradient. With one step it is the gradient, in every bit.

#include "exec/limit.h"
#include "job/dynamic/coder.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/proxy.h"
#include "job/dynamic/stepper.h"
#include "job/dynamic/wall.h"
#include "job/dynamic/wall_hurry.h"
#include "plan/seconds.h"

#include <math.h>
#include <string.h>

// Whether elements are as those of the flat vector: then there is nothing to convert.
static bool is_alike(const tt_dynamic *d, const tt_tensor *tensor)
{
    return tensor->dtype == (d->all.is_wide ? TT_F64 : TT_F32);
}

tt_status tt__dynamic_read_part(const tt_dynamic *d, tt_exec *exec,
                                const tt_tensor *tensor, void *to)
{
    if (is_alike(d, tensor))
        return tt_exec_read(exec, tensor->val, to);
    TT_TRY(tt_exec_read(exec, tensor->val, d->x));
    tt_tensor_convert(tensor->dtype, d->x, d->all.is_wide ? TT_F64 : TT_F32, to,
                      tensor->count);
    return TT_OK;
}

tt_status tt__dynamic_write_part(const tt_dynamic *d, tt_exec *exec,
                                 const tt_tensor *tensor, const void *from)
{
    if (is_alike(d, tensor))
        return tt_tensor_write(exec, tensor, from);
    tt_tensor_convert(d->all.is_wide ? TT_F64 : TT_F32, from, tensor->dtype,
                      d->x, tensor->count);
    return tt_tensor_write(exec, tensor, d->x);
}

static tt_status set(const tt_dynamic *d, const char *name, double value)
{
    return tt_is(tt_graph_find(d->job->graph, name))
               ? tt_exec_set_scalar(d->exec, name, value)
               : TT_OK;
}

static tt_status feed_one(void *user, tt_exec *exec, int32_t micro)
{
    tt__worker_feeding *f = user;
    tt_job *job = f->d->job;
    const int64_t n = tt_job_worker_samples(job);
    bool is_over = false;
    if (micro > 0)
        TT_TRY(tt__hurry_before(f->d, micro, &is_over));
    if (is_over)
        return TT_OK;
    if (micro > 0)
        TT_TRY(tt__coder_keep(f->d, micro - 1));
    f->now = micro;
    TT_TRY(set(f->d, "first_sample", (double)(f->first + micro * n)));
    if (f->d->feed != NULL)
        TT_TRY(f->d->feed(f->d->feed_user, job, f->micro++, job->x, job->y));
    TT_TRY(tt_exec_write(exec, tt_graph_find(job->graph, "x"), job->x));
    return tt_exec_write(exec, tt_graph_find(job->graph, "y"), job->y);
}

static tt_status write_weights(const tt_dynamic *d, void *weights)
{
    for (int32_t i = 0; i < d->n_parts; i++)
        TT_TRY(
            tt__dynamic_write_part(d, d->exec, &d->part[i].tensor,
                                   tt__element_at(d, weights, d->part[i].at)));
    return TT_OK;
}

// By the wall clock the only worker of a rank has the executor for itself. A proxy passes on what
// it was given.
static bool is_alone(const tt_dynamic *d)
{
    return d->wall != NULL && d->wall->shows && d->n_own == 1 &&
           d->tree == NULL && d->stepper == NULL && d->job->local_steps <= 1;
}

tt_status tt__worker_fetch(tt_dynamic *d, int32_t worker, int32_t shard,
                           void *from)
{
    tt__dynamic_worker *w = tt__worker_own(d, worker);
    char *to = tt__element_at(d, w->weights, d->bound[shard]);
    if (d->is_one) // of this rank's shard: they were updated there
        return TT_OK;
    w->is_placed = is_alone(d);
    if (!w->is_placed) {
        if (to != from)
            memcpy(to, from,
                   (size_t)(tt__shard_size(d, shard) * tt__element(d)));
        return TT_OK;
    }
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        if (p->owner != shard)
            continue;
        char *data = tt__element_at(d, from, p->at - d->bound[shard]);
        char *own = tt__element_at(d, w->weights, p->at);
        TT_TRY(tt__dynamic_write_part(d, d->exec, &p->tensor, data));
        if (p->is_buffer && own != data)
            memcpy(own, data, (size_t)(p->tensor.count * tt__element(d)));
    }
    return TT_OK;
}

tt_status tt__worker_gather(tt_dynamic *d, tt__dynamic_worker *w)
{
    for (int32_t i = 0; w->is_placed && i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        if (!p->is_buffer)
            TT_TRY(tt__dynamic_read_part(d, d->exec, &p->tensor,
                                         tt__element_at(d, w->weights, p->at)));
    }
    return TT_OK;
}

// Gradients, and what statistics have moved.
tt_status tt__worker_read(const tt_dynamic *d, void *weights, void *to)
{
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        const tt_vector_span n = {d->all.is_wide, p->tensor.count};
        char *at = tt__element_at(d, to, p->at);
        TT_TRY(tt__dynamic_read_part(d, d->exec,
                                     p->is_buffer ? &p->tensor : &p->grad, at));
        if (p->is_buffer)
            tt_vector_add(&n, -1, tt__element_at(d, weights, p->at), at);
    }
    return TT_OK;
}

static tt_status read_tallies(const tt_dynamic *d, tt__push_head *head)
{
    static const char *const name[] = {"loss", "count", "correct"};
    tt_val v[3];
    for (int i = 0; i < 3; i++)
        v[i] = tt_graph_output_find(d->job->graph, name[i]);
    return tt_exec_get_scalars(d->exec, v, 3, head->v);
}

tt_status tt__worker_run(tt_dynamic *d, int64_t number, void *weights,
                         tt__worker_feeding *f, tt__push_head *head)
{
    const tt_job *job = d->job;
    if (weights != NULL)
        TT_TRY(write_weights(d, weights));
    TT_TRY(set(d, "step", (double)(number + 1)));
    TT_TRY(set(d, "seed", (double)job->options.seed));
    TT_TRY(set(d, "samples", (double)job->options.batch));
    TT_TRY(tt_exec_run_part(d->exec, TT_RUN_GRADIENT, NULL, feed_one, f));
    TT_TRY(tt__coder_keep(d, f->now));
    return read_tallies(d, head);
}

tt_vector_span tt__worker_weights(const tt_dynamic *d)
{
    tt_vector_span s = {d->all.is_wide, 0};
    for (int32_t i = 0; i < d->n_parts && !d->part[i].is_buffer; i++)
        s.n += d->part[i].tensor.count;
    return s;
}

// That of the moment in which it got its weights, so that it does not matter when this rank
// computes.
static double local_rate(const tt_dynamic *d)
{
    return d->params->local_lr > 0 ? d->params->local_lr
                                   : d->rate[d->job->worker];
}

static tt_status run_local(tt_dynamic *d, tt__dynamic_worker *w,
                           tt__worker_feeding *f)
{
    const tt_vector_span n = tt__worker_weights(d);
    const int64_t steps = d->job->local_steps;
    const int64_t samples =
        tt_job_worker_samples(d->job) * d->job->options.accumulate;
    const tt_vector_span buffers = {n.is_wide, d->all.n - n.n};
    memcpy(d->local, w->weights, (size_t)tt_vector_bytes(&d->all));
    memset(w->gradient, 0, (size_t)tt_vector_bytes(&d->all));
    for (int64_t h = 0; h < steps; h++, f->first += samples) {
        tt__push_head head = {0};
        TT_TRY(tt__worker_run(d, w->number, d->local, f, &head));
        TT_TRY(tt__worker_read(d, d->local, d->mean));
        tt_vector_scale(&n, 1 / head.v[TT_HEAD_COUNT], d->mean);
        if (d->params->proximal > 0) {
            tt_vector_add(&n, d->params->proximal, d->local, d->mean);
            tt_vector_add(&n, -d->params->proximal, w->weights, d->mean);
        }
        tt_vector_add(&d->all, 1, d->mean, w->gradient);
        tt_vector_add(&n, -local_rate(d), d->mean, d->local);
        tt_vector_add(&buffers, 1, tt__element_at(d, d->mean, n.n),
                      tt__element_at(d, d->local, n.n));
        for (int i = TT_HEAD_LOSS; i <= TT_HEAD_CORRECT; i++)
            w->head.v[i] += head.v[i];
    }
    // The server divides the sum over workers by the sum of their counts.
    tt_vector_scale(&n, w->head.v[TT_HEAD_COUNT], w->gradient);
    return TT_OK;
}

// Whether its gradient stays in the executor.
static bool is_bare(const tt_dynamic *d, const tt__dynamic_worker *w)
{
    return d->wall != NULL && w->left_out == 0 && tt__wall_is_bare(d);
}

// Micro-batches that were not finished are passed over, so that the next gradient has batches
// of its own.
static tt_status pass_over(tt_dynamic *d, const tt__dynamic_worker *w,
                           tt__worker_feeding *f)
{
    tt_job *job = d->job;
    for (int64_t i = 0; d->feed != NULL && i < w->left_out; i++)
        TT_TRY(d->feed(d->feed_user, job, f->micro++, job->x, job->y));
    return TT_OK;
}

// The micro-batches that were finished.
static tt_status run_part(tt_dynamic *d, tt__dynamic_worker *w,
                          tt__worker_feeding *f)
{
    const int64_t n = d->job->options.accumulate - w->left_out;
    memset(w->gradient, 0, (size_t)tt_vector_bytes(&d->all));
    if (n > 0) {
        tt_exec_limit(d->exec, (int32_t)n);
        TT_TRY(tt__worker_run(d, w->number, w->weights, f, &w->head));
        tt_exec_limit(d->exec, 0);
        TT_TRY(tt__worker_read(d, w->weights, w->gradient));
    }
    return pass_over(d, w, f);
}

// By the wall clock: as many as are finished when its worker is hurried.
static tt_status run_hurried(tt_dynamic *d, tt__dynamic_worker *w,
                             tt__worker_feeding *f)
{
    const int64_t all = d->job->options.accumulate;
    w->left_out = tt__hurry_is_over(d) ? all : 0;
    if (w->left_out > 0)
        return run_part(d, w, f);
    TT_TRY(tt__worker_run(d, w->number, w->is_placed ? NULL : w->weights, f,
                          &w->head));
    tt_exec_limit(d->exec, 0);
    TT_TRY(tt__worker_read(d, w->weights, w->gradient));
    w->left_out = all - (f->now + 1);
    return pass_over(d, w, f);
}

// Of a vector, or of what is still in the executor: the same bits. Where nobody asks how long
// a gradient is: 0, or NaN if it is not finite, which takes half of the time.
static double squares(const tt_dynamic *d, const tt__dynamic_worker *w)
{
    const bool asks = d->crowd != NULL || d->params->limit > 0;
    tt_vector_lanes sums = {0};
    bool is_finite = true;
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        const tt_vector_span n = {d->all.is_wide, p->tensor.count};
        const void *x = is_bare(d, w) ? tt_exec_dense(d->exec, p->grad.val)
                                      : tt__element_at(d, w->gradient, p->at);
        if (p->is_buffer)
            continue;
        if (asks)
            tt_vector_lanes_add(&n, x, &sums);
        else
            is_finite = is_finite && tt_vector_is_finite(&n, x);
    }
    return is_finite ? tt_vector_lanes_sum(&sums) : (double)NAN;
}

static void judge(const tt_dynamic *d, tt__dynamic_worker *w)
{
    double *v = w->head.v;
    v[TT_HEAD_SQUARES] = squares(d, w);
    const double loss = v[TT_HEAD_LOSS] / v[TT_HEAD_COUNT];
    const double length = sqrt(v[TT_HEAD_SQUARES]) / v[TT_HEAD_COUNT];
    const bool is_good = isfinite(length) && isfinite(loss) &&
                         (d->params->limit <= 0 || length <= d->params->limit);
    const bool is_empty = v[TT_HEAD_COUNT] == 0 && w->left_out > 0;
    v[TT_HEAD_REFUSED] = is_good || is_empty ? 0 : 1;
}

void tt__dynamic_judge(const tt_dynamic *d, double *head)
{
    if (head[TT_HEAD_LOSS] / head[TT_HEAD_COUNT] > d->job->limit)
        head[TT_HEAD_REFUSED] = 1;
}

double tt__worker_seconds(const tt_dynamic *d, int32_t worker)
{
    const tt_plan *plan = d->job->plan;
    double seconds = 0;
    if (d->drawn.rules.speed == NULL)
        return 0;
    for (int32_t i = 0; i < plan->n_order; i++)
        if (plan->segment[plan->order[i].segment].phase != TT_UPDATE)
            seconds += tt_plan_seconds(plan, plan->order[i].segment);
    return seconds / d->drawn.rules.speed[worker];
}

tt_status tt__worker_compute(tt_dynamic *d, int32_t worker)
{
    tt__dynamic_worker *w = &d->own[worker - d->first];
    tt_job *job = d->job;
    if (w->is_computed)
        return TT_OK;
    tt__worker_feeding f = {
        .d = d, .first = worker * (job->options.batch / d->workers)};
    job->worker = worker;
    job->number = w->number;
    w->head = (tt__push_head){0};
    if (tt__hurry_is(d)) {
        TT_TRY(run_hurried(d, w, &f));
    } else if (w->left_out > 0) {
        TT_TRY(run_part(d, w, &f));
    } else if (d->stepper != NULL) {
        TT_TRY(tt__stepper_run(d, worker, &f));
    } else if (job->local_steps > 1) {
        TT_TRY(run_local(d, w, &f));
    } else {
        TT_TRY(tt__worker_run(d, w->number, w->is_placed ? NULL : w->weights,
                              &f, &w->head));
        if (!is_bare(d, w))
            TT_TRY(tt__worker_read(d, w->weights, w->gradient));
    }
    judge(d, w);
    w->head.v[TT_HEAD_BYTES] = (double)tt_vector_bytes(&d->all);
    if (d->coder != NULL)
        TT_TRY(tt__coder_encode(d, worker));
    w->is_computed = true;
    return TT_OK;
}

tt_status tt__worker_compute_any(tt_dynamic *d, bool *did_out)
{
    const tt_clock_def *clock = d->server.rules.clock; // NULL: rounds have none
    *did_out = false;
    if (clock != NULL && clock->takes_parts) // it may have to be less
        return TT_OK;
    for (int32_t i = 0; i < d->n_own; i++) {
        if (d->own[i].is_computed || tt__worker_waits(d, d->first + i))
            continue;
        *did_out = true;
        return tt__worker_compute(d, d->first + i);
    }
    return TT_OK;
}
