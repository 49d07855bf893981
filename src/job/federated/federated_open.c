// federated_open - what a federation refuses, and its memory: four vectors on each rank,
// whatever the number of clients. Control variates and residuals of codes come on top, one
// for each client that was asked.

#include "base/alloc.h"
#include "config/pace.h"
#include "job/federated/federated.h"

#include <math.h>
#include <string.h>

bool tt_job_is_federated(const tt_job *job)
{
    return job->workers > 0 &&
           strcmp(tt_exchange_policy(&job->exchange)->name, "federated") == 0;
}

// ---- checks --------------------------------------------------------------

static tt_status check_noise(const tt_federated_params *p)
{
    if (p->noise <= 0)
        return TT_OK;
    if (p->clip <= 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.noise is in lengths of exchange.clip, and "
                       "without one a client's change may be of any length; "
                       "exchange.clip=1 would do");
    if (p->weights != TT_WEIGHTS_EQUAL)
        return tt_fail(TT_ERR_ARG,
                       "exchange.noise hides a client that weighs as much as "
                       "all others; exchange.weights=equal would do");
    if (p->over > 1)
        return tt_fail(TT_ERR_ARG,
                       "exchange.noise: with exchange.over=%g a client may "
                       "take another's place, and what is told of it is not "
                       "bounded so; exchange.over=1 would do",
                       p->over);
    if (p->control != TT_CONTROL_NONE)
        return tt_fail(TT_ERR_ARG,
                       "exchange.noise: control variates tell of clients "
                       "without noise; exchange.control=none would do");
    return TT_OK;
}

tt_status tt__federated_check(const tt_job *job)
{
    const tt_federated_params *p = tt__federated_settings(job);
    if (strcmp(p->ps.pace.schedule, "seeded") != 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=federated draws who is asked and who "
                       "is late from the seed; exchange.schedule=seeded would "
                       "do, not %s",
                       p->ps.pace.schedule);
    if (p->ps.local_lr <= 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.local_lr=0: clients would not move; "
                       "exchange.local_lr=0.1 would do");
    if (p->fraction <= 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.fraction=0 asks nobody; exchange.fraction=%g, "
                       "which is one client, would do",
                       1.0 / job->workers);
    if (p->local_epochs > 0 && p->ps.local_steps > 1)
        return tt_fail(TT_ERR_ARG,
                       "exchange.local_epochs=%lld and exchange.local_steps="
                       "%lld both say how long clients work; "
                       "exchange.local_epochs=0 would do",
                       (long long)p->local_epochs,
                       (long long)p->ps.local_steps);
    return check_noise(p);
}

// ---- data ----------------------------------------------------------------

static int64_t size_of(const tt_job *job, int32_t client)
{
    return job->shares != NULL ? tt_shares_size(job->shares, client)
                               : job->options.batch;
}

// Local steps of a client in a round; 0: it has no data.
static int64_t steps_of(const tt_job *job, int32_t client)
{
    const tt_federated_params *p = tt__federated_settings(job);
    const int64_t batches =
        job->shares != NULL ? tt_shares_batches(job->shares, client) : 1;
    if (batches == 0)
        return 0;
    return p->local_epochs > 0 ? p->local_epochs * batches : p->ps.local_steps;
}

void tt_job_describe_shares(const tt_job *job, tt_shares_options *out)
{
    const tt_federated_params *p = tt__federated_settings(job);
    *out = (tt_shares_options){.kind = p->split,
                               .clients = job->workers,
                               .seed = (uint64_t)job->options.seed,
                               .seq = job->io.seq,
                               .batch = job->options.batch,
                               .alpha = p->alpha,
                               .labels = p->labels};
}

// The samples of a step are those of the clients that a round wants, on average.
void tt_job_set_shares(tt_job *job, const tt_shares *shares)
{
    const tt_federated_params *p = tt__federated_settings(job);
    double samples = 0;
    int32_t eligible = 0;
    job->shares = shares;
    for (int32_t i = 0; i < job->workers; i++) {
        const int64_t batches = tt_shares_batches(shares, i);
        if (batches == 0)
            continue;
        eligible++;
        samples += (double)tt_shares_size(shares, i) *
                   (double)steps_of(job, i) / (double)batches;
    }
    const double wanted = fmax(1, floor(p->fraction * eligible + 0.5));
    job->step_samples = (int64_t)(samples / eligible * wanted + 0.5);
}

static tt_status make_clients(tt__federated *f)
{
    tt_dynamic *d = f->d;
    const tt_job *job = d->job;
    const int64_t n = d->workers;
    int64_t *steps = tt_arena_alloc(d->arena, n * (int64_t)sizeof *steps);
    f->size = tt_arena_alloc(d->arena, n * (int64_t)sizeof *f->size);
    f->client = tt_arena_alloc(d->arena, n * (int64_t)sizeof *f->client);
    d->tally = tt_arena_alloc(d->arena,
                              (n * TT_HEAD_N + 8) * (int64_t)sizeof *d->tally);
    if (steps == NULL || f->size == NULL || f->client == NULL ||
        d->tally == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d clients", d->workers);
    for (int32_t i = 0; i < d->workers; i++) {
        f->size[i] = size_of(job, i);
        f->total += f->size[i];
        steps[i] = steps_of(job, i);
    }
    f->rules.steps = steps;
    return TT_OK;
}

static tt_status make_rules(tt__federated *f)
{
    tt_dynamic *d = f->d;
    const tt_job *job = d->job;
    const tt_pace_params *p = &f->params->ps.pace;
    double *speed = NULL;
    f->rules = (tt_round_rules){.pace = {.workers = d->workers,
                                         .seed = (uint64_t)job->options.seed,
                                         .spread = p->spread,
                                         .jitter = p->jitter,
                                         .pause = p->pause,
                                         .length = p->length,
                                         .delay = p->delay},
                                .fraction = f->params->fraction,
                                .over = f->params->over,
                                .deadline = f->params->deadline,
                                .drop = f->params->drop,
                                .is_poisson = f->params->noise > 0};
    TT_TRY(make_clients(f));
    if (tt_pace_is_set(job->distribution.pace)) {
        speed = tt_arena_alloc(d->arena, d->workers * (int64_t)sizeof *speed);
        if (speed == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory for speeds");
        for (int32_t i = 0; i < d->workers; i++)
            TT_TRY(tt_pace_speed(job->distribution.pace, d->workers, i,
                                 &speed[i]));
    }
    f->rules.pace.speed = speed;
    TT_TRY(tt_diary_init(&f->diary, d->workers, d->arena));
    return tt_round_init(&f->round, &f->rules, d->arena);
}

// ---- memory --------------------------------------------------------------

static void *vector_of(const tt_vector_span *s)
{
    return tt_alloc(tt_vector_bytes(s) + 8);
}

static tt_status make_vectors(tt__federated *f)
{
    tt_dynamic *d = f->d;
    const bool controls = f->params->control == TT_CONTROL_SCAFFOLD;
    f->weights = tt__worker_weights(d);
    f->update_span = d->all;
    if (controls)
        f->update_span.n += f->weights.n;
    f->begin = vector_of(&d->all);
    f->update = vector_of(&f->update_span);
    d->local = vector_of(&d->all);
    d->mean = vector_of(&d->all);
    d->now = vector_of(&d->shard);
    d->total = d->sum = vector_of(&d->shard);
    if (controls)
        f->control = vector_of(&f->weights);
    if (controls)
        f->moved = vector_of(&f->weights);
    return f->begin != NULL && f->update != NULL && d->local != NULL &&
                   d->mean != NULL && d->now != NULL && d->sum != NULL &&
                   (!controls || (f->control != NULL && f->moved != NULL))
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for a client");
}

static tt_status make_masks(tt__federated *f)
{
    tt_dynamic *d = f->d;
    const int64_t bytes = f->update_span.n * (int64_t)sizeof(uint64_t);
    f->heaviest = 1;
    for (int32_t i = 0; i < d->workers; i++)
        f->heaviest = fmax(f->heaviest, tt__federated_weight(f, i));
    if (!f->params->masks)
        return TT_OK;
    f->is_there = tt_arena_alloc(d->arena, d->workers);
    f->hidden = tt_alloc(bytes + 8);
    f->hidden_sum = tt_alloc(bytes + 8);
    return f->is_there != NULL && f->hidden != NULL && f->hidden_sum != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for masks");
}

tt_status tt__federated_open(tt_dynamic *d)
{
    tt__federated *f = tt_arena_alloc(d->arena, sizeof *f);
    if (f == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a federation");
    d->federated = f;
    f->d = d;
    f->params = tt__federated_settings(d->job);
    d->per_rank = d->n_own = 0; // clients belong to no rank
    TT_TRY(make_rules(f));
    TT_TRY(make_vectors(f));
    TT_TRY(make_masks(f));
    TT_TRY(tt__federated_codes_open(f));
    return tt__dynamic_read(d);
}

void tt__federated_close(tt_dynamic *d)
{
    tt__federated *f = d->federated;
    if (f == NULL)
        return;
    for (int32_t i = 0; f->client != NULL && i < d->workers; i++)
        tt_free(f->client[i].kept);
    tt_free(f->begin);
    tt_free(f->update);
    tt_free(f->control);
    tt_free(f->moved);
    tt_free(f->hidden);
    tt_free(f->hidden_sum);
    tt_free(f->code);
}
