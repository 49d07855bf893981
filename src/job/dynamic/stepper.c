// stepper - see the header.

#include "job/dynamic/stepper.h"

#include "base/alloc.h"
#include "job/dynamic/dynamic_math.h"

#include <math.h>
#include <string.h>

typedef struct own { // of a worker of this rank
    char *state, *before;
} own;

struct tt__stepper {
    int32_t n_states;
    tt_tensor *state; // of the optimiser
    int64_t bytes;
    own *worker;
};

bool tt__stepper_is(const tt_job *job)
{
    return strcmp(tt_exchange_policy(&job->exchange)->name, "ps") == 0 &&
           tt__server_params(job)->optimiser == TT_OPTIMISER_WORKER;
}

tt_status tt__stepper_check(const tt_job *job, const tt_clock_def *clock)
{
    if (!tt__stepper_is(job))
        return TT_OK;
    if (clock->takes_parts)
        return tt_fail(TT_ERR_ARG,
                       "exchange.clock=%s takes parts of gradients, and with "
                       "exchange.optimiser=worker changes are pushed; "
                       "exchange.clock=quorum would do",
                       clock->name);
    if (tt__server_params(job)->staleness == TT_STALE_COMPENSATE)
        return tt_fail(TT_ERR_ARG,
                       "exchange.staleness=compensate corrects gradients, and "
                       "with exchange.optimiser=worker changes are pushed; "
                       "exchange.staleness=lr would do");
    if (strcmp(tt_exchange_codec(&job->exchange)->name, "dgc") == 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.codec=dgc is a code of gradients, and with "
                       "exchange.optimiser=worker changes are pushed; "
                       "exchange.codec=topk would do");
    if (job->train.ema > 0)
        return tt_fail(TT_ERR_ARG,
                       "train.ema averages the server's weights where its "
                       "optimiser runs; exchange.optimiser=server would do");
    return TT_OK;
}

// ---- a step --------------------------------------------------------------

static tt_status write_states(const tt_dynamic *d, const char *state)
{
    const tt__stepper *s = d->stepper;
    for (int32_t i = 0; i < s->n_states; i++) {
        TT_TRY(tt_tensor_write(d->exec, &s->state[i], state));
        state += s->state[i].bytes;
    }
    return TT_OK;
}

static tt_status read_states(const tt_dynamic *d, tt_exec *exec, char *state)
{
    const tt__stepper *s = d->stepper;
    for (int32_t i = 0; i < s->n_states; i++) {
        TT_TRY(tt_exec_read(exec, s->state[i].val, state));
        state += s->state[i].bytes;
    }
    return TT_OK;
}

static tt_status set(const tt_dynamic *d, const char *name, double value)
{
    return tt_is(tt_graph_find(d->job->graph, name))
               ? tt_exec_set_scalar(d->exec, name, value)
               : TT_OK;
}

static tt_status write_gradient(const tt_dynamic *d, void *gradient)
{
    for (int32_t i = 0; i < d->n_parts; i++)
        if (!d->part[i].is_buffer)
            TT_TRY(tt__dynamic_write_part(
                d, d->exec, &d->part[i].grad,
                tt__element_at(d, gradient, d->part[i].at)));
    return TT_OK;
}

// The pull to the weights that the worker got, and the limit of the norm.
static tt_status correct(tt_dynamic *d, const tt__dynamic_worker *w,
                         double count)
{
    const tt_vector_span n = tt__worker_weights(d);
    const double pull = d->params->proximal * count;
    const double most = d->job->optim_params.clip;
    if (pull == 0 && most <= 0)
        return TT_OK;
    TT_TRY(tt__worker_read(d, d->local, d->mean));
    if (pull > 0) {
        tt_vector_add(&n, pull, d->local, d->mean);
        tt_vector_add(&n, -pull, w->weights, d->mean);
    }
    const double norm = sqrt(tt_vector_squares(&n, d->mean)) / count;
    const double factor = most / (norm + 1e-6); // as ops/optim/clip.c
    if (most > 0 && factor < 1)
        tt_vector_scale(&n, factor, d->mean);
    return write_gradient(d, d->mean);
}

static tt_status update(tt_dynamic *d, double rate, int64_t number)
{
    TT_TRY(set(d, "lr", rate));
    TT_TRY(set(d, "step", (double)number));
    TT_TRY(set(d, "skip", 0));
    TT_TRY(tt_exec_run_part(d->exec, TT_RUN_UPDATE, NULL, NULL, NULL));
    for (int32_t i = 0; i < d->n_parts; i++)
        TT_TRY(
            tt__dynamic_read_part(d, d->exec, &d->part[i].tensor,
                                  tt__element_at(d, d->local, d->part[i].at)));
    return TT_OK;
}

// What the worker has moved. The server divides the sum over workers by the sum of their
// counts; statistics move by the mean over workers.
static void take_change(const tt_dynamic *d, tt__dynamic_worker *w)
{
    const tt_vector_span n = tt__worker_weights(d);
    memcpy(w->gradient, d->local, (size_t)tt_vector_bytes(&d->all));
    tt_vector_add(&d->all, -1, w->weights, w->gradient);
    tt_vector_scale(&n, w->head.v[TT_HEAD_COUNT], w->gradient);
}

tt_status tt__stepper_run(tt_dynamic *d, int32_t worker, tt__worker_feeding *f)
{
    tt__dynamic_worker *w = &d->own[worker - d->first];
    own *mine = &d->stepper->worker[worker - d->first];
    const int64_t steps = d->job->local_steps;
    const int64_t samples =
        tt_job_worker_samples(d->job) * d->job->options.accumulate;
    const double rate =
        d->params->local_lr > 0 ? d->params->local_lr : d->rate[worker];
    memcpy(d->local, w->weights, (size_t)tt_vector_bytes(&d->all));
    TT_TRY(write_states(d, mine->state));
    for (int64_t h = 0; h < steps; h++, f->first += samples) {
        tt__push_head head = {0};
        TT_TRY(tt__worker_run(d, w->number, d->local, f, &head));
        TT_TRY(correct(d, w, head.v[TT_HEAD_COUNT]));
        TT_TRY(update(d, rate, w->number * steps + h + 1));
        for (int i = TT_HEAD_LOSS; i <= TT_HEAD_CORRECT; i++)
            w->head.v[i] += head.v[i];
    }
    char *before = mine->state;
    mine->state = mine->before;
    mine->before = before;
    take_change(d, w);
    return read_states(d, d->exec, mine->state);
}

// ---- states --------------------------------------------------------------

int64_t tt__stepper_state_bytes(const tt_dynamic *d)
{
    return d->stepper != NULL ? d->stepper->bytes : 0;
}

char *tt__stepper_state(const tt_dynamic *d, int32_t worker, bool is_before)
{
    const own *mine = &d->stepper->worker[worker - d->first];
    return is_before ? mine->before : mine->state;
}

static void list_states(tt_dynamic *d)
{
    const tt_tensors *all = &d->job->tensors;
    tt__stepper *s = d->stepper;
    for (int64_t i = 0; i < all->n; i++)
        if (all->v[i].role == TT_TENSOR_OPTIM && all->v[i].bytes > 0) {
            s->state[s->n_states++] = all->v[i];
            s->bytes += all->v[i].bytes;
        }
}

tt_status tt__stepper_open(tt_dynamic *d)
{
    if (!tt__stepper_is(d->job))
        return TT_OK;
    tt__stepper *s = d->stepper = tt_arena_alloc(d->arena, sizeof *s);
    if (s == NULL)
        return TT_ERR_NOMEM;
    s->state = tt_arena_alloc(d->arena, (d->job->tensors.n + 1) *
                                            (int64_t)sizeof *s->state);
    s->worker =
        tt_arena_alloc(d->arena, (d->n_own + 1) * (int64_t)sizeof *s->worker);
    if (s->state == NULL || s->worker == NULL)
        return TT_ERR_NOMEM;
    list_states(d);
    for (int32_t i = 0; i < d->n_own; i++) {
        own *w = &s->worker[i];
        w->state = tt_alloc(s->bytes + 8);
        w->before = tt_alloc(s->bytes + 8);
        if (w->state == NULL || w->before == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory for optimisers of workers");
        TT_TRY(read_states(d, d->job->exec, w->state));
    }
    return TT_OK;
}

void tt__stepper_close(tt_dynamic *d)
{
    tt__stepper *s = d->stepper;
    for (int32_t i = 0; s != NULL && s->worker != NULL && i < d->n_own; i++) {
        tt_free(s->worker[i].state);
        tt_free(s->worker[i].before);
    }
}
