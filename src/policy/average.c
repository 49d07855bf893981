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
    return TT_OK;
}

static int parts(const void *params)
{
    return (int)((const tt_average_params *)params)->parts;
}

static int variants(const void *params, int64_t replicas)
{
    (void)replicas;
    return parts(params);
}

// Part i comes i / parts of the way from one average of part 0 to the next.
static bool is_due(const void *params, int64_t replicas, int64_t step,
                   int variant)
{
    const tt_average_params *p = params;
    (void)replicas;
    if (step <= p->dense)
        return true;
    return p->every > 0 &&
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
    return ((const tt_average_params *)params)->optim != TT_OUTER_NONE;
}

// A code is of what has changed since the last average, which all have.
static tt_status send(tt_builder *b, tt_agreement *a)
{
    a->sent = a->is_coded ? tt_policy_add(b, a->x, -1, a->model) : a->x;
    return b->status;
}

static tt_status take(tt_builder *b, tt_agreement *a)
{
    const tt_average_params *p = a->params;
    const tt_val mean =
        a->is_coded ? tt_add(b, a->model, a->got[0]) : a->got[0];
    a->x_out = mean;
    if (a->is_coded)
        a->model_out = mean;
    if (p->optim == TT_OUTER_NONE)
        return b->status;
    const double mu = p->optim_momentum;
    const tt_val moved = tt_policy_add(b, mean, -1, a->model);
    const tt_val m = tt_policy_add(b, moved, mu, a->state[0]);
    const tt_val way =
        p->optim == TT_OUTER_NESTEROV ? tt_policy_add(b, moved, mu, m) : m;
    a->state_out[0] = m;
    a->model_out = tt_policy_add(b, a->model, p->optim_lr, way);
    a->x_out = a->model_out;
    return b->status;
}

static double rate(const void *params, int64_t replicas, int variant)
{
    (void)params;
    (void)replicas;
    (void)variant;
    return 0;
}

static const char *const samples[] = {
    "every=2",
    "every=2 optim=momentum optim_lr=0.9 optim_momentum=0.5",
    "every=2 optim=nesterov optim_lr=0.7",
    "every=4 parts=2 dense=1",
    "every=0",
    "every=3 adaptive=true",
    NULL,
};

const tt_policy_def tt_policy_average = {
    .name = "average",
    .doc = "Replicas train by themselves and take the mean of their weights "
           "every few steps.",
    .paper = "McDonald 2010, Stich 2019; BMUF Chen 2016, SlowMo Wang 2020, "
             "DiLoCo Douillard 2023; post-local Lin 2020; AdaComm Wang 2019",
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
    .states = states,
    .keeps_model = keeps_model,
    .send = send,
    .take = take,
    .rate = rate,
    .samples = samples,
};
