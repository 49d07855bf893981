// dynamic_check - settings of workers and servers that have no meaning together, each refused in
// a sentence.

#include "job/dynamic/chain.h"
#include "job/dynamic/hog.h"
#include "job/dynamic/proxy.h"
#include "job/dynamic/stepper.h"
#include "job/exchange.h"
#include "job/federated/federated.h"

#include <string.h>

int32_t tt__dynamic_servers(const tt_job *job)
{
    return tt__crowd_is(job) || tt_job_is_federated(job)
               ? 0
               : (int32_t)tt__server_params(job)->servers;
}

// They are of a gradient, not of what an optimiser or several steps make of gradients.
static tt_status check_factors(const tt_job *job)
{
    const char *would = NULL;
    if (tt__server_params(job)->optimiser == TT_OPTIMISER_WORKER)
        would = "exchange.optimiser=server";
    else if (job->local_steps > 1)
        would = "exchange.local_steps=1";
    if (would != NULL)
        return tt_fail(TT_ERR_ARG,
                       "exchange.codec=factors: workers push what their "
                       "weights have moved, which is no product of two "
                       "factors; %s would do",
                       would);
    return tt__job_factors_check(job);
}

static tt_status check_codec(const tt_job *job, const char *name)
{
    const char *codec = tt_exchange_codec(&job->exchange)->name;
    if (!tt_exchange_is_coded(&job->exchange))
        return TT_OK;
    if (tt_job_is_federated(job))
        return tt__federated_codes_check(job);
    if (tt__crowd_is(job))
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=%s sends weights as they are, not "
                       "codes of them (%s); exchange.codec=none would do",
                       name, codec);
    return strcmp(codec, "factors") == 0 ? check_factors(job) : TT_OK;
}

// A server's optimiser can be divided, but in another way; that of a worker cannot.
static tt_status check_zero(const tt_job *job, const char *name)
{
    const long long zero = (long long)job->distribution.zero;
    if (zero == 0)
        return TT_OK;
    if (tt_job_is_federated(job))
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=%s keeps the optimiser at one rank, so "
                       "zero=%lld has nothing to divide; zero=0 would do",
                       name, zero);
    if (tt__crowd_is(job))
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=%s has an optimiser at each worker, so "
                       "zero=%lld has nothing to divide; zero=0 would do",
                       name, zero);
    if (tt__server_params(job)->server == TT_SERVER_SHARDED)
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=%s has a part of the optimiser in each "
                       "shard, so zero=%lld has nothing to divide; zero=0 "
                       "would do",
                       name, zero);
    return tt_fail(TT_ERR_ARG,
                   "exchange.policy=%s keeps the optimiser at the server, "
                   "which zero=%lld does not divide; zero=0 would do, with "
                   "exchange.server=sharded",
                   name, zero);
}

static tt_status check_places(const tt_job *job)
{
    const char *name = tt_exchange_policy(&job->exchange)->name;
    if (job->grid.ranks != job->grid.size[TT_AXIS_DATA])
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=%s has a whole model at each worker, "
                       "which the mesh %s would cut; mesh.data=%lld alone "
                       "would do",
                       name, job->grid.mesh, (long long)job->grid.ranks);
    TT_TRY(check_zero(job, name));
    TT_TRY(check_codec(job, name));
    if (job->options.precision == TT_PRECISION_FP16)
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=%s: workers of different versions have "
                       "no common loss scale; precision=bf16 would do",
                       name);
    if (job->train.nan == TT_NAN_ROLLBACK ||
        job->train.spike == TT_SPIKE_ROLLBACK)
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=%s: the server refuses bad gradients "
                       "one by one, so there is nothing to roll back; "
                       "train.nan=skip and train.spike=skip would do",
                       name);
    if (!job->optim_params.master)
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=%s keeps weights in 32 bits where they "
                       "are updated; optim.master=true would do",
                       name);
    return TT_OK;
}

static tt_status check_servers(const tt_job *job)
{
    const tt_ps_params *p = tt__server_params(job);
    if (tt__dynamic_servers(job) == 0)
        return TT_OK;
    const int64_t ranks = job->grid.size[TT_AXIS_DATA];
    if (p->servers >= ranks)
        return tt_fail(TT_ERR_ARG,
                       "exchange.servers=%lld of %lld ranks leaves none for "
                       "workers; -n %lld would do",
                       (long long)p->servers, (long long)ranks,
                       (long long)p->servers + 1);
    if (p->servers > 1 && p->server != TT_SERVER_SHARDED)
        return tt_fail(TT_ERR_ARG,
                       "exchange.servers=%lld ranks keep weights in shards; "
                       "exchange.server=sharded would do",
                       (long long)p->servers);
    return TT_OK;
}

static tt_status check_workers(const tt_job *job)
{
    const int64_t n = job->workers;
    const int64_t ranks =
        job->grid.size[TT_AXIS_DATA] - tt__dynamic_servers(job);
    const int64_t samples = n * job->local_steps * job->options.accumulate;
    if (n % ranks != 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.replicas=%lld workers cannot be shared by "
                       "%lld ranks evenly; exchange.replicas=%lld would do",
                       (long long)n, (long long)ranks,
                       (long long)((n / ranks + 1) * ranks));
    if (job->options.batch % samples != 0)
        return tt_fail(
            TT_ERR_ARG,
            "batch=%lld cannot be divided between %lld workers with "
            "%lld local steps of %lld micro-batches; batch=%lld "
            "would do",
            (long long)job->options.batch, (long long)n,
            (long long)job->local_steps, (long long)job->options.accumulate,
            (long long)((job->options.batch / samples + 1) * samples));
    return TT_OK;
}

static tt_status check_parts(const tt_job *job, const tt_clock_def *clock)
{
    const tt_ps_params *p = tt__server_params(job);
    if (!clock->takes_parts)
        return TT_OK;
    if (job->options.accumulate == 1)
        return tt_fail(TT_ERR_ARG,
                       "exchange.clock=%s takes the micro-batches that slow "
                       "workers have finished, and there is one in a gradient; "
                       "accumulate=4 would do",
                       clock->name);
    if (job->local_steps > 1)
        return tt_fail(TT_ERR_ARG,
                       "exchange.clock=%s takes parts of gradients, and local "
                       "steps are not parts of one; exchange.local_steps=1 "
                       "would do",
                       clock->name);
    if (p->gather != TT_GATHER_MEAN)
        return tt_fail(TT_ERR_ARG,
                       "exchange.clock=%s weighs gradients by samples, and "
                       "exchange.gather has no weights; exchange.gather=mean "
                       "would do",
                       clock->name);
    return TT_OK;
}

static tt_status check_gather(const tt_job *job, const tt_clock_def *clock,
                              double bound)
{
    const tt_ps_params *p = tt__server_params(job);
    const bool is_single = strcmp(clock->name, "async") == 0 ||
                           strcmp(clock->name, "essp") == 0 ||
                           (strcmp(clock->name, "softsync") == 0 && bound == 1);
    if (p->gather != TT_GATHER_MEAN && is_single)
        return tt_fail(TT_ERR_ARG,
                       "exchange.gather compares the gradients of an update, "
                       "and with exchange.clock=%s each is an update of its "
                       "own; exchange.clock=bsp would do",
                       clock->name);
    if (p->gather == TT_GATHER_KRUM && p->server == TT_SERVER_SHARDED)
        return tt_fail(TT_ERR_ARG,
                       "exchange.gather=krum compares whole gradients, and a "
                       "shard has parts; exchange.server=single would do");
    const int32_t n = tt__proxy_pushers(job);
    if (p->gather != TT_GATHER_MEAN && 2 * p->bad >= n)
        return tt_fail(TT_ERR_ARG,
                       "exchange.bad=%lld of %d %s leaves no majority; "
                       "exchange.bad=%d would do",
                       (long long)p->bad, n,
                       p->proxies > 0 ? "proxies" : "workers", (n - 1) / 2);
    if (p->gather != TT_GATHER_MEAN && n > TT_GATHER_MOST / 2)
        return tt_fail(TT_ERR_ARG,
                       "exchange.gather compares at most %d workers, not %d; "
                       "exchange.replicas=%d would do",
                       TT_GATHER_MOST / 2, job->workers, TT_GATHER_MOST / 2);
    return TT_OK;
}

double tt__dynamic_momentum(const tt_job *job)
{
    const double own = job->optim_params.params.momentum;
    return job->workers > 0 && !tt__crowd_is(job) &&
                   tt__server_params(job)->staleness == TT_STALE_MOMENTUM
               ? tt_stale_momentum(own, tt__proxy_pushers(job) - 1)
               : own;
}

static tt_status check_stale(const tt_job *job, const tt_clock_def *clock)
{
    const tt_ps_params *p = tt__server_params(job);
    const bool is_bsp = strcmp(clock->name, "bsp") == 0 || clock->takes_parts;
    if (p->staleness != TT_STALE_NONE && is_bsp)
        return tt_fail(TT_ERR_ARG,
                       "exchange.staleness: with exchange.clock=%s no "
                       "gradient is old; exchange.staleness=none would do",
                       clock->name);
    if (p->staleness == TT_STALE_COMPENSATE &&
        strcmp(clock->name, "quorum") == 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.staleness=compensate: with exchange.clock="
                       "quorum a worker goes on before its gradient is used, "
                       "and what it had is gone; exchange.clock=softsync would "
                       "do");
    if (p->staleness == TT_STALE_REJECT && strcmp(clock->name, "backup") == 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.clock=backup drops every old gradient; "
                       "exchange.staleness=none would do");
    if (p->staleness == TT_STALE_MOMENTUM &&
        strcmp(job->optim->name, "momentum") != 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.staleness=momentum lowers the momentum of the "
                       "optimiser, and optim=%s has none; optim=momentum would "
                       "do",
                       job->optim->name);
    return TT_OK;
}

// The graph is one worker's, on one rank.
static tt_status set_grid(tt_job *job)
{
    for (int a = 0; a < TT_N_AXES; a++)
        job->grid.size[a] = 1;
    job->grid.ranks = job->grid.data = 1;
    return tt_grid_mesh(&job->distribution, &job->grid, 1, job->arena,
                        &job->grid.mesh);
}

tt_status tt__dynamic_count(tt_job *job)
{
    if (tt_exchange_policy(&job->exchange)->kind != TT_POLICY_DYNAMIC)
        return TT_OK;
    const int64_t ranks =
        job->grid.size[TT_AXIS_DATA] - tt__dynamic_servers(job);
    if (job->exchange.replicas == 0) // of no ranks: check_servers says it
        job->exchange.replicas = ranks > 0 ? ranks : 1;
    job->workers = (int32_t)job->exchange.replicas;
    job->local_steps =
        tt__crowd_is(job) ? 1 : tt__server_params(job)->local_steps;
    return TT_OK;
}

tt_status tt__dynamic_check(tt_job *job)
{
    const tt_ps_params *p = tt__server_params(job);
    int n = 0;
    double bound = 0;
    if (job->workers == 0)
        return TT_OK;
    const tt_clock_def *clock = tt_clock_all(&n)[p->clock];
    TT_TRY(check_places(job));
    if (tt_job_is_federated(job)) {
        TT_TRY(tt__federated_check(job));
        return set_grid(job);
    }
    TT_TRY(check_servers(job));
    TT_TRY(check_workers(job));
    if (tt__crowd_is(job)) {
        TT_TRY(tt__crowd_check(job));
        return set_grid(job);
    }
    TT_TRY(tt__copies_check(job));
    TT_TRY(tt__proxy_check(job, clock));
    TT_TRY(tt_clock_bound(clock, tt__proxy_pushers(job), p->bound, &bound));
    TT_TRY(check_parts(job, clock));
    TT_TRY(check_gather(job, clock, bound));
    TT_TRY(check_stale(job, clock));
    TT_TRY(tt__stepper_check(job, clock));
    return set_grid(job);
}
