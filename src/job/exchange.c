// exchange - see the header, and docs/exchange.md.
//
// With a codec the number of replicas decides what is computed: each encodes the gradient
// of its part of the batch. So it is a setting of the run, and not the number of ranks.
// The graph is partitioned as if each replica were a rank; then pass/blocks.c gives each
// rank several, as in exact mode.

#include "job/exchange.h"

#include "job/exact.h"
#include "pass/codes.h"
#include "pass/exchange.h"
#include "pass/factors/factors.h"
#include "pass/factors/rows.h"

#include <string.h>

// Factors say all that gradients do, so it does not matter how many replicas there are.
static bool has_factors(const tt_job *job)
{
    return strcmp(tt_exchange_codec(&job->exchange)->name, "factors") == 0;
}

int64_t tt__job_codes_replicas(const tt_job *job)
{
    return tt_exchange_is_coded(&job->exchange) &&
                   !tt_exchange_differs(&job->exchange) && !has_factors(job)
               ? job->exchange.replicas
               : 1;
}

void tt__job_codes_add(const tt_job *job, tt_chain *chain)
{
    const tt_exchange *e = &job->exchange;
    const tt_exchange_params params = {.codec = tt_exchange_codec(e),
                                       .codec_params = e->codec_params,
                                       .feedback = tt_exchange_has_feedback(e),
                                       .sparse = e->sparse,
                                       .ranks = job->grid.size[TT_AXIS_DATA]};
    tt_chain_add(chain, &tt_pass_exchange, &params);
}

void tt__job_factors_add(const tt_job *job, int64_t micro_batches,
                         tt_chain *chain)
{
    const tt_factors_params params = {micro_batches};
    if (has_factors(job) && !tt_exchange_differs(&job->exchange))
        tt_chain_add(chain, &tt_pass_factors, &params);
}

void tt__job_rows_add(const tt_job *job, int64_t micro_batches, tt_chain *chain)
{
    const tt_rows_params params = {micro_batches};
    if (has_factors(job) && job->workers > 0)
        tt_chain_add(chain, &tt_pass_rows, &params);
}

// ---- what does not go together -------------------------------------------

static tt_status check_replicas(const tt_job *job)
{
    const int64_t replicas = job->exchange.replicas;
    const int64_t ranks = job->grid.size[TT_AXIS_DATA];
    if (replicas % ranks != 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.replicas=%lld cannot be shared by %lld ranks "
                       "along data evenly; exchange.replicas=%lld would do, in "
                       "a run that begins with it",
                       (long long)replicas, (long long)ranks, (long long)ranks);
    if (job->options.micro < replicas)
        return tt_fail(TT_ERR_ARG,
                       "a micro-batch of %lld cannot be divided between %lld "
                       "replicas; batch=%lld would do",
                       (long long)job->options.micro, (long long)replicas,
                       (long long)(replicas * job->options.accumulate));
    return TT_OK;
}

static tt_status check_exact(const tt_job *job)
{
    const int64_t replicas = job->exchange.replicas;
    const int64_t blocks = tt__exact_blocks(job, job->options.micro);
    if (!job->options.exact || blocks == replicas)
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "exact: %lld replicas need as many blocks of a micro-batch, "
                   "not %lld; exchange.replicas=%lld would do, in a run that "
                   "begins with it",
                   (long long)replicas, (long long)blocks, (long long)blocks);
}

// dgc has a momentum of its own, inside the code.
static tt_status check_dgc(const tt_job *job)
{
    return strcmp(job->optim->name, "sgd") == 0
               ? TT_OK
               : tt_fail(
                     TT_ERR_ARG,
                     "exchange.codec=dgc has the momentum in its codes "
                     "(exchange.codec.momentum), and optim=%s would have it "
                     "twice; optim=sgd would do",
                     job->optim->name);
}

tt_status tt__job_factors_check(const tt_job *job)
{
    return !job->options.exact
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "exchange.codec=factors with exact=true: blocks of "
                         "samples have gradients of their own there, which are "
                         "added in a fixed order; exchange.codec=none would "
                         "do");
}

static tt_status check_factors(const tt_job *job)
{
    const int64_t zero = job->distribution.zero;
    TT_TRY(tt__job_factors_check(job));
    if (zero > 1)
        return tt_fail(TT_ERR_ARG,
                       "exchange.codec=factors with zero=%lld: no rank has a "
                       "whole gradient there, and factors make whole ones; "
                       "zero=1 would do",
                       (long long)zero);
    return TT_OK;
}

static tt_status check_codec(const tt_job *job)
{
    const tt_exchange *e = &job->exchange;
    const tt_codec_def *codec = tt_exchange_codec(e);
    const bool is_dgc = strcmp(codec->name, "dgc") == 0;
    if (is_dgc && e->feedback == TT_FEEDBACK_OFF)
        return tt_fail(TT_ERR_ARG,
                       "exchange.codec=dgc keeps what it does not send; "
                       "exchange.feedback=auto would do");
    if (job->options.precision == TT_PRECISION_FP16)
        return tt_fail(TT_ERR_ARG,
                       "exchange.codec=%s with precision=fp16: codes and "
                       "residuals would change with the loss scale; "
                       "precision=bf16 would do",
                       codec->name);
    return is_dgc ? check_dgc(job) : TT_OK;
}

// Sums of 16-bit codes are rounded after each pair, so their order counts: in pairs over
// a rank's own replicas, then over ranks.
static tt_status check_pairs(const tt_job *job)
{
    const tt_codec_def *codec = tt_exchange_codec(&job->exchange);
    const int64_t own = job->exchange.replicas / job->grid.size[TT_AXIS_DATA];
    if (strcmp(codec->name, "fp16") != 0 && strcmp(codec->name, "bf16") != 0)
        return TT_OK;
    if ((own & (own - 1)) != 0)
        return tt_fail(
            TT_ERR_ARG,
            "exchange.codec=%s: sums of 16 bits are taken in pairs, "
            "and a rank has %lld replicas, which is no power of two; "
            "-n %lld would do",
            codec->name, (long long)own, (long long)job->exchange.replicas);
    return TT_OK;
}

tt_status tt__job_codes_check(tt_job *job)
{
    if (job->workers > 0 || tt_exchange_differs(&job->exchange) ||
        !tt_exchange_is_coded(&job->exchange))
        return TT_OK;
    if (has_factors(job))
        return check_factors(job);
    if (job->exchange.replicas == 0)
        job->exchange.replicas = job->grid.size[TT_AXIS_DATA];
    TT_TRY(check_codec(job));
    TT_TRY(check_replicas(job));
    TT_TRY(check_pairs(job));
    return check_exact(job);
}

// ---- codes of activations ------------------------------------------------

tt_status tt__job_layer_codes_check(const tt_job *job)
{
    const tt_codec_def *codec = tt_distribution_codec(&job->distribution);
    return codec == NULL ? TT_OK : tt_codes_check(codec);
}

void tt__job_layer_codes_add(const tt_job *job, tt_chain *chain)
{
    const tt_codes_params params = {tt_distribution_codec(&job->distribution),
                                    job->distribution.codec_params};
    if (params.codec != NULL)
        tt_chain_add(chain, &tt_pass_codes, &params);
}
