// ages - see the header.

#include "job/ages.h"

#include "base/alloc.h"
#include "job/endless.h"

#include <string.h>

tt_stale tt__ages_rule(const tt_job *job)
{
    const tt_sum_params *p = (const void *)job->exchange.policy_params;
    return tt_exchange_policy(&job->exchange)->kind == TT_POLICY_SUM
               ? (tt_stale)p->staleness
               : TT_STALE_NONE;
}

// ---- what has no meaning -------------------------------------------------

static const char *const names[] = {
    [TT_STALE_NONE] = "none",
    [TT_STALE_LR] = "lr",
    [TT_STALE_COMPENSATE] = "compensate",
    [TT_STALE_MOMENTUM] = "momentum",
    [TT_STALE_REJECT] = "reject",
    [TT_STALE_PREDICT] = "predict",
};

static tt_status check_momentum(const tt_job *job)
{
    return strcmp(job->optim->name, "momentum") == 0
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "exchange.staleness=momentum lowers the momentum of "
                         "the optimiser, and optim=%s has none; optim=momentum "
                         "would do",
                         job->optim->name);
}

tt_status tt__ages_check(const tt_job *job)
{
    const tt_stale rule = tt__ages_rule(job);
    const char *schedule = job->distribution.pipe_schedule;
    if (rule == TT_STALE_NONE)
        return TT_OK;
    if (rule == TT_STALE_PREDICT)
        return tt_fail(TT_ERR_ARG,
                       "exchange.staleness=predict is for workers; stages that "
                       "read predicted weights are a schedule of their own, "
                       "with exchange.staleness=none: pipe.schedule=predict "
                       "would do");
    if (!tt__endless_has(job))
        return tt_fail(TT_ERR_ARG,
                       "exchange.staleness=%s: with pipe.schedule=%s no "
                       "gradient is old; exchange.staleness=none would do",
                       names[rule], schedule);
    if (rule == TT_STALE_REJECT)
        return tt_fail(TT_ERR_ARG,
                       "exchange.staleness=reject: how old gradients of a "
                       "stage are is fixed by pipe.schedule=%s, so all of them "
                       "would be dropped or none; exchange.staleness=lr would "
                       "do",
                       schedule);
    if (rule == TT_STALE_COMPENSATE)
        return tt_fail(TT_ERR_ARG,
                       "exchange.staleness=compensate needs the weights that a "
                       "gradient was computed at, and stages keep them for "
                       "forward and backward only: an update overwrites them; "
                       "exchange.staleness=lr would do");
    return rule == TT_STALE_MOMENTUM ? check_momentum(job) : TT_OK;
}

tt_status tt__ages_check_table(const tt_job *job, const tt_pipe *pipe)
{
    const tt_stale rule = tt__ages_rule(job);
    if (rule == TT_STALE_NONE || pipe->rule != TT_PIPE_PREDICT)
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "exchange.staleness=%s: weights are predicted here, and one "
                   "thing is done about old gradients; exchange.staleness=none "
                   "would do",
                   names[rule]);
}

// ---- ages ----------------------------------------------------------------

static int32_t age_of(const tt_pipe *p, const tt_pipe_row *row)
{
    return row->micro / p->n_micro - row->version;
}

// Of each micro-batch in each chunk: [chunk * micro-batches + micro-batch].
static int32_t *find_ages(const tt_pipe *p)
{
    const int64_t all = (int64_t)p->n_micro * p->n_steps;
    int32_t *age = tt_alloc((p->n_chunks * all + 1) * (int64_t)sizeof(int32_t));
    for (int32_t r = 0; r < p->n_ranks && age != NULL; r++)
        for (int32_t i = 0; i < p->rank[r].n; i++) {
            const tt_pipe_row *row = &p->rank[r].row[i];
            if (row->phase == TT_PIPE_FORWARD)
                age[row->chunk * all + row->micro] = age_of(p, row);
        }
    return age;
}

tt_status tt__ages_momentum(const tt_job *job, const tt_pipe *pipe,
                            const double **momentum_out)
{
    *momentum_out = NULL;
    if (tt__ages_rule(job) != TT_STALE_MOMENTUM || pipe == NULL)
        return TT_OK;
    const double own = job->optim_params.params.momentum;
    double *momentum =
        tt_arena_alloc(job->arena, pipe->n_chunks * (int64_t)sizeof(*momentum));
    if (momentum == NULL)
        return TT_ERR_NOMEM;
    for (int32_t c = 0; c < pipe->n_chunks; c++)
        momentum[c] = tt_stale_momentum(
            own, tt_pipe_staleness(pipe, pipe->place[tt_pipe_at(pipe, 0, c)]));
    *momentum_out = momentum;
    return TT_OK;
}

// The mean of the factors of an update's gradients.
static double rate_of(const int32_t *age, int32_t n)
{
    double sum = 0;
    for (int32_t m = 0; m < n; m++)
        sum += tt_stale_rate(age[m]);
    return sum / n;
}

tt_status tt__ages_rows(const tt_job *job, const tt_pipe *pipe,
                        tt_lower_row *row, int32_t n)
{
    const bool lowers = tt__ages_rule(job) == TT_STALE_LR;
    if (!tt__is_endless(pipe))
        return TT_OK;
    int32_t *age = find_ages(pipe);
    if (age == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for the ages of gradients");
    for (int32_t i = 0; i < n; i++) {
        if (row[i].phase != TT_UPDATE)
            continue;
        const int64_t last =
            (int64_t)row[i].stage * pipe->n_micro * pipe->n_steps +
            row[i].micro; // of the update's micro-batches
        const int32_t *of_step = &age[last + 1 - pipe->n_micro];
        row[i].rate = lowers ? rate_of(of_step, pipe->n_micro) : 1;
    }
    tt_free(age);
    return TT_OK;
}
