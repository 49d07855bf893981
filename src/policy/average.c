// average - each replica trains for some steps by itself; then all take the mean of their
// weights.
//
//   replica 0   w -> w -> w \          / w -> ...
//                            + mean --+
//   replica 1   w -> w -> w /          \ w -> ...
//                 every=3
//
// With every=1 and plain SGD that is the same as summing gradients. With `dense` the first
// steps are so (post-local SGD). With `parts` the weights are cut into as many parts,
// which are averaged in turns, so that less is sent at a time (streaming).
//
// With `delay` replicas go on for some steps before they have the average, which a slow link
// needs to bring it (streaming DiLoCo). They then go the part `alpha` of the way to it, so that
// the steps in between are not lost:
//
//   every=6 parts=2 delay=1      step  1  2  3  4  5  6  7  8  9 ...
//   part 0                                         a  x              a: averaged, the model is new
//   part 1                                a  x              a  x     x: x + alpha (model - x)
//
// With `adaptive` averages come the more often the lower the loss is (AdaComm): far from a
// minimum it is cheap steps that count, near it what keeps replicas apart. With F the mean
// loss since the last average, and F0 that before the first,
//
//   steps until the next = ceil(every sqrt(F / F0)),   and never more than before
//
// An outer optimiser takes for a gradient what the mean has moved since the last time:
//
//   none       w = mean
//   momentum   m = mu m + (mean - model); model += lr m             (BMUF, SlowMo)
//   nesterov   the same, and model += lr (mu m + (mean - model))    (DiLoCo)

#include "policy/average.h"

#include "ops/arith.h"
#include "policy/policy.h"

#include <math.h>

#define AT(field) offsetof(tt_average_params, field)

static const tt_opt options[] = {
    {"every", "8",
     "steps between two averages; 0: weights are never averaged, but the model "
     "is their mean",
     TT_OPT_I64, AT(every), NULL, 0, 1e9},
    {"dense", "0", "first steps after each of which there is an average",
     TT_OPT_I64, AT(dense), NULL, 0, 1e12},
    {"parts", "1", "of the weights, which are averaged in turns", TT_OPT_I64,
     AT(parts), NULL, 1, TT_POLICY_VARIANTS},
    {"delay", "0", "steps from an average to when replicas have it", TT_OPT_I64,
     AT(delay), NULL, 0, 1e9},
    {"alpha", "1", "how far replicas go to an average", TT_OPT_F64, AT(alpha),
     NULL, 0, 1},
    {"adaptive", "false",
     "the lower the loss is, the fewer steps are between two averages; they "
     "begin with every",
     TT_OPT_BOOL, AT(adaptive)},
    {"optim", "none", "outer optimiser: what is done with the mean",
     TT_OPT_CHOICE, AT(optim), "none|momentum|nesterov"},
    {"optim_lr", "1", "of this outer optimiser", TT_OPT_F64, AT(optim_lr), NULL,
     0, 100},
    {"optim_momentum", "0.9", "of this outer optimiser", TT_OPT_F64,
     AT(optim_momentum), NULL, 0, 1},
    {0},
};

static tt_status check_delay(const tt_average_params *p)
{
    if (p->alpha == 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.alpha=0: replicas would never hear of each "
                       "other; exchange.alpha=0.5 would do");
    if (p->delay == 0)
        return TT_OK;
    if (p->adaptive || p->dense > 0 || p->every == 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.delay with %s: averages would not come as far "
                       "apart as that; exchange.delay=0 would do",
                       p->adaptive    ? "exchange.adaptive"
                       : p->dense > 0 ? "exchange.dense"
                                      : "exchange.every=0");
    if (p->delay >= p->every)
        return tt_fail(TT_ERR_ARG,
                       "exchange.delay=%lld with exchange.every=%lld: the next "
                       "average would come before replicas have the last one; "
                       "exchange.delay=%lld would do",
                       (long long)p->delay, (long long)p->every,
                       (long long)p->every - 1);
    return 2 * p->parts <= TT_POLICY_VARIANTS
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "exchange.parts=%lld with exchange.delay: at most %d "
                         "can be under way; exchange.parts=%d would do",
                         (long long)p->parts, TT_POLICY_VARIANTS / 2,
                         TT_POLICY_VARIANTS / 2);
}

static tt_status check(const void *params, int64_t replicas)
{
    const tt_average_params *p = params;
    (void)replicas;
    if (p->every == 0 && p->optim != TT_OUTER_NONE)
        return tt_fail(TT_ERR_ARG,
                       "exchange.optim with exchange.every=0: the outer "
                       "optimiser would never run; exchange.every=8 would do");
    if (p->adaptive && (p->every == 0 || p->parts > 1))
        return tt_fail(TT_ERR_ARG,
                       "exchange.adaptive with %s: there is no fixed turn to "
                       "make shorter; %s would do",
                       p->every == 0 ? "exchange.every=0" : "exchange.parts",
                       p->every == 0 ? "exchange.every=8" : "exchange.parts=1");
    if (p->every > 0 && p->parts > p->every)
        return tt_fail(TT_ERR_ARG,
                       "exchange.parts=%lld with exchange.every=%lld: parts "
                       "take turns, so that there are as many steps at least; "
                       "exchange.parts=%lld would do",
                       (long long)p->parts, (long long)p->every,
                       (long long)p->every);
    return check_delay(p);
}

static int parts(const void *params)
{
    return (int)((const tt_average_params *)params)->parts;
}

// With a delay each part has a second one, in which replicas get what was averaged.
static int variants(const void *params, int64_t replicas)
{
    const tt_average_params *p = params;
    (void)replicas;
    return parts(params) * (p->delay > 0 ? 2 : 1);
}

// Part i comes i / parts of the way from one average of part 0 to the next.
static bool is_due(const void *params, int64_t replicas, int64_t step,
                   int variant)
{
    const tt_average_params *p = params;
    (void)replicas;
    if (step <= p->dense)
        return true;
    if (variant >= p->parts) {
        step -= p->delay;
        variant -= (int)p->parts;
    }
    return p->every > 0 && step > 0 &&
           (step + variant * (p->every / p->parts)) % p->every == 0;
}

static bool is_retimed(const void *params)
{
    return ((const tt_average_params *)params)->adaptive;
}

static bool is_time(const void *params, const tt_period *period, int64_t step)
{
    const tt_average_params *p = params;
    const double every = period->every > 0 ? period->every : (double)p->every;
    return step <= p->dense || (double)step - period->last >= every;
}

// A loss that is no number leaves the period as it is.
static void retime(const void *params, tt_period *period)
{
    const tt_average_params *p = params;
    const double now = period->count > 0 ? period->loss / period->count : 0;
    if (period->every == 0) {
        period->every = (double)p->every;
        period->first_loss = now;
    }
    const double next = ceil(sqrt(now / period->first_loss) * (double)p->every);
    if (next < period->every)
        period->every = next > 1 ? next : 1;
}

static int states(const void *params, const tt_policy_state **state_out)
{
    static const tt_policy_state momentum[] = {
        {.name = "momentum", .is_common = true}};
    const tt_average_params *p = params;
    *state_out = momentum;
    return p->optim == TT_OUTER_NONE ? 0 : 1;
}

static bool keeps_model(const void *params)
{
    const tt_average_params *p = params;
    return p->optim != TT_OUTER_NONE || p->delay > 0;
}

// A code is of what has changed since the last average, which all have.
static tt_status send(tt_builder *b, tt_agreement *a)
{
    a->sent = a->is_coded ? tt_policy_add(b, a->x, -1, a->model) : a->x;
    return b->status;
}

// The way from x to what was averaged.
static tt_val go(tt_builder *b, const tt_agreement *a, tt_val to)
{
    const double alpha = ((const tt_average_params *)a->params)->alpha;
    if (alpha == 1)
        return to;
    return tt_add(b, tt_scale(b, a->x, 1 - alpha), tt_scale(b, to, alpha));
}

static tt_status late(tt_builder *b, tt_agreement *a)
{
    a->x_out = go(b, a, a->model);
    return b->status;
}

// What the outer optimiser makes of the mean.
static tt_val improve(tt_builder *b, tt_agreement *a, tt_val mean)
{
    const tt_average_params *p = a->params;
    if (p->optim == TT_OUTER_NONE)
        return mean;
    const double mu = p->optim_momentum;
    const tt_val moved = tt_policy_add(b, mean, -1, a->model);
    const tt_val m = tt_policy_add(b, moved, mu, a->state[0]);
    const tt_val way =
        p->optim == TT_OUTER_NESTEROV ? tt_policy_add(b, moved, mu, m) : m;
    a->state_out[0] = m;
    return tt_policy_add(b, a->model, p->optim_lr, way);
}

static tt_status take(tt_builder *b, tt_agreement *a)
{
    const tt_average_params *p = a->params;
    const tt_val mean =
        a->is_coded ? tt_add(b, a->model, a->got[0]) : a->got[0];
    const tt_val model = improve(b, a, mean);
    if (a->is_coded || keeps_model(p))
        a->model_out = model;
    if (p->delay == 0)
        a->x_out = go(b, a, model);
    return b->status;
}

// An average that replicas do not have yet leaves them where they are.
static double rate(const void *params, int64_t replicas, int variant)
{
    const tt_average_params *p = params;
    (void)replicas;
    return p->delay > 0 && variant < p->parts ? 1 : 1 - p->alpha;
}

static const char *const samples[] = {
    "every=2",
    "every=2 optim=momentum optim_lr=0.9 optim_momentum=0.5",
    "every=2 optim=nesterov optim_lr=0.7",
    "every=4 parts=2 dense=1",
    "every=0",
    "every=3 adaptive=true",
    "every=3 alpha=0.5",
    "every=3 delay=1",
    "every=4 parts=2 delay=3 alpha=0.5 optim=nesterov optim_lr=0.7",
    NULL,
};

const tt_policy_def tt_policy_average = {
    .name = "average",
    .doc = "Replicas train by themselves and take the mean of their weights "
           "every few steps.",
    .paper = "McDonald 2010, Stich 2019; BMUF Chen 2016, SlowMo Wang 2020, "
             "DiLoCo Douillard 2023; streaming DiLoCo Douillard 2025; "
             "post-local Lin 2020; AdaComm Wang 2019",
    .kind = TT_POLICY_STATIC,
    .options = options,
    .params_bytes = sizeof(tt_average_params),
    .check = check,
    .variants = variants,
    .is_due = is_due,
    .is_retimed = is_retimed,
    .is_time = is_time,
    .retime = retime,
    .parts = parts,
    .late = late,
    .states = states,
    .keeps_model = keeps_model,
    .send = send,
    .take = take,
    .rate = rate,
    .samples = samples,
};
