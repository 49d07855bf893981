// gaia - replicas tell each other only changes that are significant (Gaia).
//
// Replicas far from each other (in other data centres) have slow links. Most changes of a
// step are small beside the weight that they change, and matter little to the others. A
// replica adds up what it has changed of each weight, and tells it when that is more than a
// part of the weight:
//
//   sent where   |a / n| > threshold / sqrt(t) |x|
//
// with a what it has not told yet, n the replicas, and t the step: as training settles,
// smaller changes are significant. Nothing is lost, it is only late. With m what all have
// heard (the model), a replica goes on from
//
//   x = m + a / n                       own changes count as much as others' do
//   m = m + mean of what was sent,      a = a - sent
//
//   group 0   ####  \  few entries  /  ####   group 1
//   in every step    +------------+           inside: exchange.policy=allreduce
//
// With threshold=0 and plain SGD that is summing gradients.
//
//   sent   a value and its place for each significant entry (codec nonzero)

#include "ops/act/activation.h"
#include "ops/arith.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "policy/policy.h"

typedef struct tt_gaia_params {
    double threshold;
} tt_gaia_params;

static const tt_opt options[] = {
    {"threshold", "0.01",
     "part of a weight that a change must exceed to be sent, at the first "
     "step; falls as one over the root of the step",
     TT_OPT_F64, offsetof(tt_gaia_params, threshold), NULL, 0, 1e6},
    {0},
};

static bool is_due(const void *params, int64_t replicas, int64_t step,
                   int variant)
{
    (void)params;
    (void)replicas;
    (void)step;
    (void)variant;
    return true;
}

static int states(const void *params, const tt_policy_state **state_out)
{
    static const tt_policy_state untold[] = {{.name = "untold"}};
    (void)params;
    *state_out = untold;
    return 1;
}

static bool keeps_model(const void *params)
{
    (void)params;
    return true;
}

// The entries of a for which t a^2 exceeds (n threshold x)^2; 0 elsewhere.
static tt_status send(tt_builder *b, tt_agreement *a)
{
    const tt_gaia_params *p = a->params;
    const double bar = (double)a->replicas * p->threshold;
    const tt_val all = tt_policy_untold(b, a);
    const tt_val step =
        tt_cast(b, tt_scalar(b, "step", TT_I64), tt_type_of(b, a->x)->dtype);
    const tt_val size = tt_mul(b, tt_mul(b, all, all), step);
    const tt_val over =
        tt_policy_add(b, size, -bar * bar, tt_mul(b, a->x, a->x));
    const tt_val in[] = {over, all};
    a->sent = tt_call(b, &tt_op_relu_grad, NULL, in, 2, NULL);
    return b->status;
}

static tt_status take(tt_builder *b, tt_agreement *a)
{
    const tt_val left = tt_policy_add(b, tt_policy_untold(b, a), -1, a->sent);
    a->state_out[0] = left;
    a->model_out = tt_add(b, a->model, a->got[0]);
    a->x_out = tt_policy_add(b, a->model_out, 1 / (double)a->replicas, left);
    return b->status;
}

static double rate(const void *params, int64_t replicas, int variant)
{
    (void)replicas;
    (void)variant;
    return ((const tt_gaia_params *)params)->threshold > 0 ? 1 : 0;
}

static const char *const samples[] = {
    "threshold=0",
    "threshold=0.05",
    "threshold=3",
    NULL,
};

const tt_policy_def tt_policy_gaia = {
    .name = "gaia",
    .doc = "Replicas tell each other changes that are significant.",
    .paper = "Gaia Hsieh 2017",
    .kind = TT_POLICY_STATIC,
    .options = options,
    .params_bytes = sizeof(tt_gaia_params),
    .is_due = is_due,
    .states = states,
    .keeps_model = keeps_model,
    .send = send,
    .take = take,
    .codec = "nonzero",
    .rate = rate,
    .samples = samples,
};
