// dynamic_open - workers, shards and their memory.

#include "base/alloc.h"
#include "config/pace.h"
#include "job/dynamic/chain.h"
#include "job/dynamic/coder.h"
#include "job/dynamic/dynamic_math.h"
#include "job/dynamic/hog.h"
#include "job/dynamic/proxy.h"
#include "job/dynamic/stepper.h"
#include "job/dynamic/wall.h"
#include "job/federated/federated.h"

#include <string.h>

// ---- layout --------------------------------------------------------------

static bool is_learnt(const tt_job *job, const tt_tensor *t, tt_tensor *grad)
{
    return t->role == TT_TENSOR_BUFFER ||
           (t->role == TT_TENSOR_PARAM && tt_tensor_grad(job->graph, t, grad));
}

static tt_status list_parts(tt_dynamic *d)
{
    const tt_job *job = d->job;
    d->part = tt_arena_alloc(d->arena,
                             (job->tensors.n + 1) * (int64_t)sizeof *d->part);
    if (d->part == NULL)
        return TT_ERR_NOMEM;
    int64_t longest = 0;
    for (int64_t i = 0; i < job->tensors.n; i++) {
        tt__dynamic_part *p = &d->part[d->n_parts];
        p->tensor = job->tensors.v[i];
        if (!is_learnt(job, &p->tensor, &p->grad))
            continue;
        p->is_buffer = p->tensor.role == TT_TENSOR_BUFFER;
        p->at = d->all.n;
        d->all.n += p->tensor.count;
        longest = p->tensor.count > longest ? p->tensor.count : longest;
        d->n_parts++;
    }
    d->x = tt_alloc(8 * longest + 8);
    return d->x != NULL ? TT_OK
                        : tt_fail(TT_ERR_NOMEM, "no memory for a tensor");
}

// Shards are rows of whole tensors, as even as these allow.
static tt_status cut_shards(tt_dynamic *d)
{
    const int32_t all = d->job->peers.size;
    const int32_t ranks = d->servers > 0 ? d->servers : all;
    const bool is_cut = d->params->server == TT_SERVER_SHARDED;
    int32_t r = 0;
    d->bound = tt_arena_alloc(d->arena, (all + 1) * (int64_t)sizeof(int64_t));
    if (d->bound == NULL)
        return TT_ERR_NOMEM;
    for (int32_t i = 0; i < d->n_parts; i++) {
        tt__dynamic_part *p = &d->part[i];
        while (is_cut && r + 1 < ranks &&
               2 * p->at + p->tensor.count >
                   2 * ((int64_t)r + 1) * d->all.n / ranks)
            d->bound[++r] = p->at;
        p->owner = r;
    }
    while (r < all)
        d->bound[++r] = d->all.n;
    d->shard =
        (tt_vector_span){d->all.is_wide, tt__shard_size(d, d->job->peers.rank)};
    return TT_OK;
}

// ---- memory --------------------------------------------------------------

static void *vector_of(const tt_vector_span *s)
{
    return tt_alloc(tt_vector_bytes(s) + 8);
}

static tt_status make_workers(tt_dynamic *d)
{
    bool has_all = true;
    d->own = tt_arena_alloc(d->arena, (d->n_own + 1) * (int64_t)sizeof *d->own);
    if (d->own == NULL)
        return TT_ERR_NOMEM;
    for (int32_t i = 0; i < d->n_own; i++) {
        d->own[i].weights = vector_of(&d->all);
        d->own[i].gradient = vector_of(&d->all);
        d->own[i].is_placed = d->is_one;
        has_all =
            has_all && d->own[i].weights != NULL && d->own[i].gradient != NULL;
    }
    d->local = vector_of(&d->all);
    d->mean = vector_of(&d->all);
    return has_all && d->local != NULL && d->mean != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for %d workers", d->n_own);
}

static tt_status make_shard(tt_dynamic *d)
{
    const int64_t n = d->workers;
    const bool predicts = d->params->staleness == TT_STALE_PREDICT;
    const bool remembers = predicts || d->server.rules.clock->asks_change;
    bool has_all = true;
    d->slot = tt_arena_alloc(d->arena, 2 * n * (int64_t)sizeof *d->slot);
    d->lent = tt_arena_alloc(d->arena, 2 * n * (int64_t)sizeof *d->lent);
    d->slot_head =
        tt_arena_alloc(d->arena, 2 * n * (int64_t)sizeof *d->slot_head);
    d->n_refused = tt_arena_alloc(d->arena, n * (int64_t)sizeof(int64_t));
    d->tally = tt_arena_alloc(d->arena,
                              (n * TT_HEAD_N + 8) * (int64_t)sizeof *d->tally);
    d->rate = tt_arena_alloc(d->arena, n * (int64_t)sizeof *d->rate);
    d->up = tt_arena_alloc(d->arena, n * (int64_t)sizeof *d->up);
    d->delivered = tt_arena_alloc(d->arena, n * (int64_t)sizeof(int32_t));
    d->turn = tt_arena_alloc(d->arena, n * (int64_t)sizeof *d->turn);
    d->now = vector_of(&d->shard);
    d->sum = vector_of(&d->shard);
    if (remembers)
        d->before = vector_of(&d->shard);
    if (predicts)
        d->ahead = vector_of(&d->shard);
    has_all =
        (!remembers || d->before != NULL) && (!predicts || d->ahead != NULL);
    if (d->params->staleness == TT_STALE_COMPENSATE) {
        d->then = tt_arena_alloc(d->arena, n * (int64_t)sizeof *d->then);
        for (int64_t i = 0; d->then != NULL && i < n; i++) {
            d->then[i] = vector_of(&d->shard);
            has_all = has_all && d->then[i] != NULL;
        }
        has_all = has_all && d->then != NULL;
    }
    return has_all && d->slot != NULL && d->lent != NULL &&
                   d->slot_head != NULL && d->n_refused != NULL &&
                   d->up != NULL && d->tally != NULL && d->delivered != NULL &&
                   d->turn != NULL && d->rate != NULL && d->now != NULL &&
                   d->sum != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for the server");
}

static tt_status make_rules(tt_dynamic *d)
{
    const tt_job *job = d->job;
    const tt_ps_params *p = d->params;
    int n = 0;
    tt_server_rules rules = {
        .workers = tt__proxy_pushers(job),
        .clock = tt_clock_all(&n)[p->clock],
        .reject = p->staleness == TT_STALE_REJECT ? p->reject : -1,
        .is_noted = tt__crowd_is(job)};
    tt_drawn_rules drawn = {.workers = d->workers,
                            .seed = (uint64_t)job->options.seed,
                            .spread = p->pace.spread,
                            .jitter = p->pace.jitter,
                            .pause = p->pace.pause,
                            .length = p->pace.length,
                            .delay = p->pace.delay,
                            .is_eager = rules.clock->is_eager,
                            .has_proxies = d->tree != NULL};
    TT_TRY(tt_clock_bound(rules.clock, rules.workers, p->bound, &rules.bound));
    TT_TRY(tt_server_init(&d->server, &rules, d->arena));
    if (tt_pace_is_set(job->distribution.pace)) {
        double *speed =
            tt_arena_alloc(d->arena, d->workers * (int64_t)sizeof *speed);
        for (int32_t i = 0; speed != NULL && i < d->workers; i++)
            TT_TRY(tt_pace_speed(job->distribution.pace, d->workers, i,
                                 &speed[i]));
        drawn.speed = speed;
    }
    return tt_drawn_init(&d->drawn, &drawn, d->arena);
}

// All workers begin with the model as it is.
static tt_status begin_workers(tt_dynamic *d)
{
    for (int32_t i = 0; d->n_own > 0 && i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        TT_TRY(
            tt__dynamic_read_part(d, d->job->exec, &p->tensor,
                                  tt__element_at(d, d->own[0].weights, p->at)));
    }
    for (int32_t i = 0; i < d->workers; i++)
        d->rate[i] = d->job->lr;
    for (int32_t i = 1; i < d->n_own; i++)
        memcpy(d->own[i].weights, d->own[0].weights,
               (size_t)tt_vector_bytes(&d->all));
    for (int32_t i = 0; d->then != NULL && i < d->workers; i++)
        memcpy(d->then[i], d->now, (size_t)tt_vector_bytes(&d->shard));
    if (d->before != NULL)
        memcpy(d->before, d->now, (size_t)tt_vector_bytes(&d->shard));
    tt__copies_remember(d);
    return TT_OK;
}

// The workers' executor begins with the model as it is, also with what is not learnt.
static tt_status copy_states(tt_dynamic *d)
{
    if (d->is_one)
        return TT_OK;
    const tt_tensors *all = &d->job->tensors;
    int64_t most = 0;
    for (int64_t i = 0; i < all->n; i++)
        most = all->v[i].bytes > most ? all->v[i].bytes : most;
    void *data = tt_alloc(most + 8);
    tt_status status =
        data != NULL ? TT_OK : tt_fail(TT_ERR_NOMEM, "no memory for a tensor");
    for (int64_t i = 0; i < all->n && status == TT_OK; i++) {
        const tt_tensor *t = &all->v[i];
        if (t->bytes == 0)
            continue;
        status = tt_exec_read(d->job->exec, t->val, data);
        if (status == TT_OK)
            status = tt_tensor_write(d->exec, t, data);
    }
    tt_free(data);
    return status;
}

static tt_status open(tt_dynamic *d)
{
    tt_job *job = d->job;
    d->arena = tt_arena_create();
    if (d->arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for workers");
    d->params = tt__crowd_is(job) ? tt__crowd_params(job, d->arena)
                                  : tt__server_params(job);
    if (d->params == NULL)
        return TT_ERR_NOMEM;
    d->workers = job->workers;
    d->servers = tt__dynamic_servers(job);
    d->per_rank = job->workers / (job->peers.size - d->servers);
    tt_job_workers(job, &d->first, &d->n_own);
    d->all.is_wide = job->options.precision == TT_PRECISION_FP64;
    TT_TRY(list_parts(d));
    TT_TRY(cut_shards(d));
    TT_TRY(tt__copies_open(d));
    TT_TRY(tt__dynamic_steps(d));
    TT_TRY(tt__worker_exec_open(d));
    TT_TRY(copy_states(d));
    if (tt_job_is_federated(job))
        return tt__federated_open(d);
    TT_TRY(tt__proxy_open(d));
    TT_TRY(make_rules(d));
    TT_TRY(make_workers(d));
    TT_TRY(make_shard(d));
    TT_TRY(tt__dynamic_read(d));
    TT_TRY(begin_workers(d));
    TT_TRY(tt__crowd_open(d));
    TT_TRY(tt__coder_open(d));
    TT_TRY(tt__stepper_open(d));
    if (strcmp(d->params->pace.schedule, "seeded") == 0)
        return TT_OK;
    d->is_live = tt_job_workers_are_live(d->job);
    if (!d->is_live)
        return tt__list_open(d);
    if (tt__hog_is(job))
        return tt__hog_open(d);
    return d->crowd != NULL ? tt__crowd_wall_open(d) : tt__wall_open(d);
}

void tt_job_workers(const tt_job *job, int32_t *first_out, int32_t *n_out)
{
    const int32_t servers = tt__dynamic_servers(job);
    const int32_t each = job->workers / (job->peers.size - servers);
    const bool has_any = job->peers.rank >= servers;
    *n_out = has_any ? each : 0;
    *first_out = has_any ? (job->peers.rank - servers) * each : 0;
}

int64_t tt_job_worker_parts(const tt_job *job)
{
    if (job->workers == 0 || tt_job_is_federated(job))
        return 1;
    return job->workers * job->local_steps;
}

int64_t tt_job_worker_samples(const tt_job *job)
{
    return job->options.batch /
           (tt_job_worker_parts(job) * job->options.accumulate);
}

int64_t tt_job_worker_number(const tt_job *job, int32_t worker)
{
    const tt_dynamic *d = job->dynamic;
    // One that waits has delivered the gradient of its number.
    return tt__worker_own(d, worker)->number +
           (tt__worker_waits(d, worker) ? 1 : 0);
}

tt_status tt_job_workers_open(tt_job *job)
{
    return tt__dynamic_open(job);
}

tt_status tt__dynamic_open(tt_job *job)
{
    if (job->dynamic != NULL)
        return TT_OK;
    tt_dynamic *d = tt_alloc(sizeof *d);
    if (d == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for workers");
    d->job = job;
    const tt_status status = open(d);
    if (status != TT_OK)
        tt__dynamic_close(d);
    else
        job->dynamic = d;
    return status;
}

void tt__dynamic_close(tt_dynamic *d)
{
    if (d == NULL)
        return;
    tt__wall_close(d);
    for (int32_t i = 0; d->own != NULL && i < d->n_own; i++) {
        tt_free(d->own[i].weights);
        tt_free(d->own[i].gradient);
    }
    for (int32_t i = 0; d->slot != NULL && i < 2 * d->workers; i++)
        tt_free(d->slot[i]);
    for (int32_t i = 0; d->then != NULL && i < d->workers; i++)
        tt_free(d->then[i]);
    tt__hog_close(d);
    tt__crowd_wall_close(d);
    tt__crowd_close(d);
    tt__copies_close(d);
    tt__proxy_close(d);
    tt__coder_close(d);
    tt__stepper_close(d);
    tt__federated_close(d);
    tt_str_fini(&d->record);
    tt_free(d->list);
    tt__worker_exec_close(d);
    tt_free(d->wanted);
    tt_free(d->now);
    tt_free(d->sum);
    tt_free(d->before);
    tt_free(d->ahead);
    tt_free(d->x);
    tt_free(d->local);
    tt_free(d->mean);
    tt_arena_destroy(d->arena);
    tt_free(d);
}
