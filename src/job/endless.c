// endless - see the header.

#include "job/endless.h"

#include "base/alloc.h"
#include "job/ages.h"
#include "pipe/measure.h"
#include "pipe/text.h"

#include <stdlib.h>
#include <string.h>

int32_t tt__endless_stages(const tt_job *job)
{
    return job->fold > 0 ? job->fold : (int32_t)job->grid.size[TT_AXIS_PIPE];
}

bool tt_job_is_late(const tt_job *job)
{
    return job->exchange.chunks > 1 && job->grid.data > 1;
}

// A file is read for it; what is wrong with it is said when it is planned.
static tt_pipe_rule rule_of(const char *name)
{
    const tt_pipe_def *def = tt_pipe_find(name);
    tt_pipe *pipe = NULL;
    if (def != NULL || strcmp(name, "auto") == 0)
        return def != NULL ? def->rule : TT_PIPE_FLUSH;
    const tt_pipe_rule rule =
        tt_pipe_read(name, &pipe) == TT_OK ? pipe->rule : TT_PIPE_FLUSH;
    tt_pipe_destroy(pipe);
    return rule;
}

bool tt__endless_has(const tt_job *job)
{
    return rule_of(job->distribution.pipe_schedule) != TT_PIPE_FLUSH;
}

int32_t tt_job_endless_stages(const tt_job *job)
{
    const int32_t n = tt__endless_stages(job);
    return n > 1 && tt__endless_has(job) ? n : 0;
}

static void forget_plan(tt_job *job)
{
    tt_plan_destroy(job->plan);
    tt_graph_destroy(job->graph);
    tt_pipe_destroy(job->pipe);
    job->plan = NULL;
    job->graph = NULL;
    job->pipe = NULL;
}

void tt_job_fold(tt_job *one, const tt_job *many)
{
    one->fold = tt_job_endless_stages(many);
    if (one->fold == 0)
        return;
    forget_plan(one); // a session has planned it as a job without stages
    one->distribution.pipe_schedule = many->distribution.pipe_schedule;
    one->distribution.pipe_cut = many->distribution.pipe_cut;
    one->distribution.pipe_chunks = many->distribution.pipe_chunks;
    one->distribution.pipe_steps = many->distribution.pipe_steps;
    memcpy(one->exchange.policy_params, many->exchange.policy_params,
           sizeof one->exchange.policy_params);
    one->options.recompute =
        0; // which changes no bit, and stops at no stage here
}

// ---- how long a stretch is -----------------------------------------------

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

// Evaluations, samples, checkpoints and the end come between stretches. So a stretch is the
// longest, up to `most` steps, after whose multiples all of them come.
// A wish to stop waits as long. Where only updates are on their way, short ones cost little.
int32_t tt__endless_steps(const tt_job *job)
{
    const int32_t most = tt_job_is_late(job) ? 16 : 100;
    const tt_train_options *o = &job->train;
    int64_t every = common_divisor(o->eval_every, o->save_every);
    every = common_divisor(every, o->sample_every);
    every = common_divisor(every, o->stop);
    if (job->distribution.pipe_steps > 0)
        return (int32_t)job->distribution.pipe_steps;
    if (every == 0)
        return most;
    int32_t steps = most;
    while (every % steps != 0)
        steps--;
    return steps;
}

static tt_status check_every(const char *key, int64_t every, int32_t steps)
{
    if (every % steps == 0)
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "%s=%lld comes while micro-batches are on their way: it "
                   "must be a multiple of pipe.steps=%d, as %lld is",
                   key, (long long)every, steps,
                   (long long)(every + steps - every % steps));
}

static tt_status check_steps(const tt_job *job, int32_t steps)
{
    const tt_train_options *o = &job->train;
    TT_TRY(check_every("eval.every", o->eval_every, steps));
    TT_TRY(check_every("sample.every", o->sample_every, steps));
    TT_TRY(check_every("checkpoint.every", o->save_every, steps));
    return check_every("train.stop", o->stop, steps);
}

// ---- what does not go with it --------------------------------------------

static tt_status check_numbers(const tt_job *job)
{
    const int precision = job->options.precision;
    if (job->options.exact)
        return tt_fail(TT_ERR_ARG,
                       "exact=true promises the bits of one rank, which "
                       "has all gradients before it updates a weight; "
                       "%s would do",
                       tt_job_is_late(job) ? "exchange.chunks=1"
                                           : "pipe.schedule=1f1b");
    if (precision == TT_PRECISION_FP16)
        return tt_fail(TT_ERR_ARG,
                       "precision=fp16 leaves an update out on all stages when "
                       "one gradient overflows, and stages do not wait for "
                       "each other; precision=bf16 would do");
    if (precision == TT_PRECISION_FP8)
        return tt_fail(TT_ERR_ARG,
                       "precision=fp8 has units that depend on the micro-batch "
                       "before, of whichever version; precision=bf16 would do");
    if (job->train.nan != TT_NAN_STOP)
        return tt_fail(TT_ERR_ARG,
                       "train.nan=%s takes a step back on all stages, and "
                       "later ones are on their way; train.nan=stop would do",
                       job->train.nan == TT_NAN_SKIP ? "skip" : "rollback");
    if (job->train.spike != TT_SPIKE_NONE)
        return tt_fail(TT_ERR_ARG,
                       "train.spike=%s takes a step back on all stages, and "
                       "later ones are on their way; train.spike=none would do",
                       job->train.spike == TT_SPIKE_SKIP ? "skip" : "rollback");
    return TT_OK;
}

static tt_status check_memory(const tt_job *job)
{
    if (job->distribution.offload != TT_OFFLOAD_NONE)
        return tt_fail(TT_ERR_ARG,
                       "offload=%s is planned for one step at a time; "
                       "offload=none would do",
                       tt_offload_name[job->distribution.offload]);
    return TT_OK;
}

static tt_status check_predict(const tt_job *job)
{
    if (strcmp(job->optim->name, "momentum") != 0)
        return tt_fail(TT_ERR_ARG,
                       "weights are carried on by the momentum of "
                       "optim=momentum, which optim=%s has not; "
                       "optim=momentum would do",
                       job->optim->name);
    if (job->options.recompute != 0)
        return tt_fail(TT_ERR_ARG,
                       "recompute would repeat a forward pass with other "
                       "weights than it had; pipedream and 2bw keep them, and "
                       "recompute=none would do");
    return TT_OK;
}

tt_status tt__late_check(const tt_job *job)
{
    const tt_policy_def *policy = tt_exchange_policy(&job->exchange);
    if (job->exchange.chunks > 1 && job->grid.size[TT_AXIS_PIPE] > 1)
        return tt_fail(TT_ERR_ARG,
                       "exchange.chunks is for one stage, and with mesh.pipe="
                       "%lld pipe.schedule says when updates come; "
                       "exchange.chunks=1 would do",
                       (long long)job->grid.size[TT_AXIS_PIPE]);
    if (job->exchange.chunks > 1 && policy->kind != TT_POLICY_SUM)
        return tt_fail(TT_ERR_ARG,
                       "exchange.chunks lets sums of gradients end late, and "
                       "exchange.policy=%s has none; exchange.chunks=1 would "
                       "do",
                       policy->name);
    if (!tt_job_is_late(job))
        return TT_OK;
    if (job->exchange.group > 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.chunks is for sums over all replicas, and "
                       "exchange.group=%lld has them within groups; "
                       "exchange.chunks=1 would do",
                       (long long)job->exchange.group);
    if (tt_exchange_is_coded(&job->exchange))
        return tt_fail(TT_ERR_ARG,
                       "exchange.chunks is for gradients that are summed as "
                       "they are; exchange.codec=none would do, not %s",
                       tt_exchange_codec(&job->exchange)->name);
    if (job->optim_params.clip > 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.chunks: optim.clip=%g needs the norm of the "
                       "whole gradient before the first update, so nothing "
                       "could end later; optim.clip=0 would do",
                       job->optim_params.clip);
    return TT_OK;
}

tt_status tt__endless_check(const tt_job *job, const tt_pipe *pipe)
{
    TT_TRY(check_steps(job, pipe->n_steps));
    TT_TRY(check_numbers(job));
    TT_TRY(check_memory(job));
    TT_TRY(tt__ages_check_table(job, pipe));
    return pipe->rule == TT_PIPE_PREDICT ? check_predict(job) : TT_OK;
}

// ---- weights of two stages -----------------------------------------------

typedef struct span {
    int32_t first, last; // stages; last < 0: none
} span;

static void add_stages(span *to, const span *from)
{
    if (from->last < 0)
        return;
    if (to->last < 0 || from->first < to->first)
        to->first = from->first;
    if (from->last > to->last)
        to->last = from->last;
}

// What is made of weights alone is made by each of its readers.
static void mark_weights(const tt_graph *g, bool *is_weight)
{
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_value *value = &g->value[v];
        const tt_node *node = value->node < 0 ? NULL : &g->node[value->node];
        is_weight[v] = node != NULL ? node->n_in > 0
                                    : value->role == TT_ROLE_PARAM ||
                                          value->role == TT_ROLE_WORK;
        for (int i = 0; node != NULL && i < node->n_in; i++)
            is_weight[v] &= !tt_is(node->in[i]) || is_weight[node->in[i].id];
    }
}

static void mark_stages(const tt_graph *g, const bool *is_weight, span *stages)
{
    for (int32_t v = 0; v < g->n_values; v++)
        stages[v].last = -1;
    for (int32_t n = g->n_nodes - 1; n >= 0; n--) {
        const tt_node *node = &g->node[n];
        span at = {node->stage, node->stage};
        if (node->phase != TT_FORWARD)
            continue;
        if (is_weight[node->out[0].id])
            at = stages[node->out[0].id];
        for (int i = 0; i < node->n_in; i++)
            if (tt_is(node->in[i]))
                add_stages(&stages[node->in[i].id], &at);
    }
}

static tt_status fail_tied(const tt_job *job, const tt_pipe *pipe,
                           const char *name, const span *at)
{
    const bool has_key = tt_opt_find(job->model->options, "tied") != NULL;
    return tt_fail(TT_ERR_ARG,
                   "pipe.schedule=%s: %s is read by stages %d and %d, which "
                   "update their weights at different times; %s",
                   pipe->name, name, at->first, at->last,
                   has_key ? "model.tied=false would do" : "1f1b would do");
}

tt_status tt__endless_check_graph(const tt_job *job, const tt_pipe *pipe,
                                  const tt_graph *graph)
{
    const int64_t n = graph->n_values + 1;
    if (tt_job_is_late(job)) // a weight is updated before its first reader
        return TT_OK;
    tt_arena *arena = tt_arena_create();
    bool *is_weight = arena ? tt_arena_alloc(arena, n) : NULL;
    span *stages =
        arena ? tt_arena_alloc(arena, n * (int64_t)sizeof(*stages)) : NULL;
    tt_status status = is_weight != NULL && stages != NULL
                           ? TT_OK
                           : tt_fail(TT_ERR_NOMEM, "no memory to look at "
                                                   "stages");
    if (status == TT_OK) {
        mark_weights(graph, is_weight);
        mark_stages(graph, is_weight, stages);
    }
    for (int32_t v = 0; v < graph->n_values && status == TT_OK; v++)
        if (tt_role_is_state(graph->value[v].role) &&
            stages[v].first < stages[v].last)
            status = fail_tied(job, pipe, graph->value[v].name, &stages[v]);
    tt_arena_destroy(arena);
    return status;
}

// ---- the table on one rank -----------------------------------------------

typedef struct timed_row {
    double start;
    int32_t rank, at;
    tt_pipe_row row;
} timed_row;

static int by_start(const void *pa, const void *pb)
{
    const timed_row *a = pa, *b = pb;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->at < b->at ? -1 : 1;
}

// A row starts after all that it needs, if every row takes some time.
static tt_status start_rows(const tt_pipe *p, tt_pipe_times **times_out)
{
    double *one = tt_alloc((p->n_chunks + 1) * (int64_t)sizeof(double));
    tt_pipe_seconds seconds = {0};
    if (one == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a schedule");
    for (int32_t c = 0; c < p->n_chunks; c++)
        one[c] = 1;
    for (int i = 0; i < TT_N_PIPE_PHASES; i++)
        seconds.row[i] = one;
    const tt_status status = tt_pipe_measure(p, &seconds, times_out);
    tt_free(one);
    return status;
}

tt_status tt__endless_fold(const tt_pipe *pipe, tt_pipe_row **row_out,
                           int32_t *n_out)
{
    tt_pipe_times *times = NULL;
    int64_t n = 0, all = 0;
    for (int32_t r = 0; r < pipe->n_ranks; r++)
        all += pipe->rank[r].n;
    TT_TRY(start_rows(pipe, &times));
    timed_row *timed = tt_alloc((all + 1) * (int64_t)sizeof(*timed));
    tt_pipe_row *row = tt_alloc((all + 1) * (int64_t)sizeof(*row));
    for (int32_t r = 0; r < pipe->n_ranks && timed != NULL; r++)
        for (int32_t i = 0; i < pipe->rank[r].n; i++)
            timed[n++] = (timed_row){times->rank[r].start[i], r, i,
                                     pipe->rank[r].row[i]};
    tt_pipe_times_destroy(times);
    if (timed == NULL || row == NULL) {
        tt_free(timed);
        tt_free(row);
        return tt_fail(TT_ERR_NOMEM, "no memory for a schedule");
    }
    qsort(timed, (size_t)n, sizeof(*timed), by_start);
    for (int64_t i = 0; i < n; i++)
        row[i] = timed[i].row;
    tt_free(timed);
    *row_out = row;
    *n_out = (int32_t)n;
    return TT_OK;
}

// ---- while it runs -------------------------------------------------------

tt_status tt__endless_begin(tt_job *job)
{
    const int64_t steps = job->plan->n_updates;
    int64_t n = steps - job->step % steps;
    if (!tt__is_endless(job->pipe) || job->stretch.left > 0)
        return TT_OK;
    if (job->until > job->step && job->until - job->step < n)
        n = job->until - job->step;
    job->stretch.first = job->step;
    job->stretch.left = n;
    return tt_exec_stretch(job->exec, (int32_t)n);
}

static tt_status set(tt_exec *exec, const char *name, double value)
{
    if (!tt_is(tt_graph_find(tt_exec_plan(exec)->graph, name)))
        return TT_OK;
    return tt_exec_set_scalar(exec, name, value);
}

// The step of the row's micro-batch, which random numbers follow from, forward and
// backward; of an update its own, whose learning rate it has.
tt_status tt__endless_row(void *user, tt_exec *exec, const tt_order *row)
{
    const tt_job *job = user;
    const int64_t step =
        job->stretch.first + row->micro / job->plan->n_micro + 1;
    const bool is_late = step <= job->step;
    TT_TRY(set(exec, "step", (double)step));
    const double rate = row->rate > 0 ? row->rate : 1;
    TT_TRY(
        set(exec, "lr", rate * (is_late ? job->stretch.lr_before : job->lr)));
    return set(exec, "ahead", row->ahead);
}
