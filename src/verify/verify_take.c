// verify_take - runs a job and keeps what it computed, as whole tensors of doubles.
//
// Gradients are kept after the first step only. After it the weights of two runs
// already differ by rounding, so a gradient of the second step tells less. But where the
// pipe is not emptied before each update, only after the last do all stages have the
// gradient of the same step.

#include "verify/verify_parts.h"

// The gradients of all weights, the last layer's first. Backward computes them in that
// order, so the first wrong one is nearest to the cause.
static tt_status list_grads(const tt_job *job, tt_arena *arena, tt__taken *out)
{
    const tt_tensors *all = &job->tensors;
    *out = (tt__taken){0};
    out->tensor =
        tt_arena_alloc(arena, (all->n + 1) * (int64_t)sizeof *out->tensor);
    if (out->tensor == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = all->n - 1; i >= 0; i--)
        out->n += tt_tensor_grad(job->graph, &all->v[i], &out->tensor[out->n]);
    return TT_OK;
}

static tt_status list_states(const tt_job *job, tt_arena *arena, tt__taken *out)
{
    const tt_tensors *all = &job->tensors;
    *out = (tt__taken){.n = all->n};
    out->tensor =
        tt_arena_alloc(arena, (all->n + 1) * (int64_t)sizeof *out->tensor);
    if (out->tensor == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < all->n; i++)
        out->tensor[i] = all->v[i];
    return TT_OK;
}

// Gathers each tensor on rank 0 and converts it. All ranks take part in every gather.
static tt_status take(tt_job *job, tt_arena *arena, tt__taken *t)
{
    int64_t largest = 0;
    t->data = tt_arena_alloc(arena, (t->n + 1) * (int64_t)sizeof *t->data);
    for (int64_t i = 0; i < t->n; i++)
        if (t->tensor[i].bytes > largest)
            largest = t->tensor[i].bytes;
    char *raw = tt_arena_alloc(arena, largest + 64);
    if (t->data == NULL || raw == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < t->n; i++) {
        const tt_tensor *tensor = &t->tensor[i];
        TT_TRY(tt_tensor_gather(job->exec, tensor, TT_FIRST_COPY, raw));
        if (!tt_peers_is_first(&job->peers))
            continue;
        t->data[i] = tt_arena_alloc(arena, 8 * tensor->count + 8);
        if (t->data[i] == NULL)
            return TT_ERR_NOMEM;
        tt_tensor_convert(tensor->dtype, raw, TT_F64, t->data[i],
                          tensor->count);
    }
    return job->peers.size > 1 ? tt__verify_copies(job, arena, t) : TT_OK;
}

tt_status tt__verify_take(tt_job *job, tt_arena *arena, tt__taken *out)
{
    TT_TRY(list_states(job, arena, out));
    return take(job, arena, out);
}

static void divide(double *x, int64_t n, double by)
{
    for (int64_t i = 0; x != NULL && i < n; i++)
        x[i] /= by;
}

// fp16 scales the loss so that small gradients do not vanish. Its gradients are
// divided by the scale of the first step before they are compared.
static void unscale(const tt_job *job, tt__taken *t)
{
    const double scale = job->train.loss_scale; // the first step's
    if (job->options.precision != TT_PRECISION_FP16)
        return;
    for (int64_t i = 0; i < t->n; i++)
        divide(t->data[i], t->tensor[i].count, scale);
    for (int64_t c = 0; c < t->n_copies; c++)
        divide(t->copy[c].data, t->tensor[t->copy[c].of].count, scale);
}

tt_status tt__verify_run(tt_job *job, const tt__verify_steps *steps,
                         tt_arena *arena, tt__ran *ran_out)
{
    tt_step_result result;
    const int64_t seen = steps->sees_last ? steps->n - 1 : 0;
    TT_TRY(tt_job_start(job, NULL));
    job->until = steps->n;
    job->wants_model = true;
    for (int64_t s = 0; s < steps->n; s++) {
        TT_TRY(tt_job_step(job, tt_job_feed_random, NULL, &result));
        if (s != seen)
            continue;
        ran_out->loss = result.loss;
        ran_out->norm = result.norm;
        TT_TRY(list_grads(job, arena, &ran_out->grads));
        TT_TRY(take(job, arena, &ran_out->grads));
        unscale(job, &ran_out->grads);
    }
    return tt__verify_take(job, arena, &ran_out->states);
}
