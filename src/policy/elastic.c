// elastic - replicas and a centre pull at each other (EASGD).
//
//   x_i    = x_i - alpha (x_i - centre)
//   centre = centre + beta (mean of x_i - centre)
//
// The centre is the model. With alpha = beta / replicas the pulls are equal, as in the
// paper.
//
// With momentum the centre goes on in the direction in which it went (SMA, CROSSBOW):
//
//   centre = centre + beta (mean of x_i - centre) + mu (centre - centre before)
//
// With a codec the centre hears codes of x_i - centre. What they do not say is no residual: x_i
// stays where it is, so the difference is there the next time.

#include "ops/arith.h"
#include "policy/policy.h"

typedef struct tt_elastic_params {
    int64_t every;
    double alpha, beta, momentum;
} tt_elastic_params;

#define AT(field) offsetof(tt_elastic_params, field)

static const tt_opt options[] = {
    {"every", "4", "steps between two agreements", TT_OPT_I64, AT(every), NULL,
     1, 1e9},
    {"alpha", "0",
     "how far a replica goes to the centre; 0: beta over the replicas",
     TT_OPT_F64, AT(alpha), NULL, 0, 1},
    {"beta", "0.9", "how far the centre goes to the replicas' mean", TT_OPT_F64,
     AT(beta), NULL, 0, 1},
    {"momentum", "0", "of the centre: that of SMA", TT_OPT_F64, AT(momentum),
     NULL, 0, 1},
    {0},
};

static double alpha_of(const tt_elastic_params *p, int64_t replicas)
{
    return p->alpha > 0 ? p->alpha : p->beta / (double)replicas;
}

static bool is_due(const void *params, int64_t replicas, int64_t step,
                   int variant)
{
    (void)replicas;
    (void)variant;
    return step % ((const tt_elastic_params *)params)->every == 0;
}

static int states(const void *params, const tt_policy_state **state_out)
{
    static const tt_policy_state before[] = {
        {.name = "before", .is_common = true, .from_model = true}};
    *state_out = before;
    return ((const tt_elastic_params *)params)->momentum > 0 ? 1 : 0;
}

static bool keeps_model(const void *params)
{
    (void)params;
    return true;
}

// x - centre is what is sent: the centre is the same everywhere.
static tt_status send(tt_builder *b, tt_agreement *a)
{
    a->sent = tt_policy_add(b, a->x, -1, a->model);
    return b->status;
}

static tt_status take(tt_builder *b, tt_agreement *a)
{
    const tt_elastic_params *p = a->params;
    a->x_out = tt_policy_add(b, a->x, -alpha_of(p, a->replicas), a->sent);
    a->model_out = tt_policy_add(b, a->model, p->beta, a->got[0]);
    if (p->momentum > 0) {
        const tt_val went = tt_policy_add(b, a->model, -1, a->state[0]);
        a->model_out = tt_policy_add(b, a->model_out, p->momentum, went);
        a->state_out[0] = a->model;
    }
    return b->status;
}

static double rate(const void *params, int64_t replicas, int variant)
{
    (void)variant;
    return 1 - alpha_of(params, replicas);
}

static const char *const samples[] = {
    "every=1",
    "every=2 alpha=0.4 beta=0.8",
    "every=2 momentum=0.5",
    NULL,
};

const tt_policy_def tt_policy_elastic = {
    .name = "elastic",
    .doc = "Replicas and a centre pull at each other every few steps.",
    .paper = "EASGD Zhang 2015; SMA Koliousis 2019",
    .kind = TT_POLICY_STATIC,
    .options = options,
    .params_bytes = sizeof(tt_elastic_params),
    .is_due = is_due,
    .states = states,
    .keeps_model = keeps_model,
    .model_leads = true,
    .keeps_rest = true,
    .send = send,
    .take = take,
    .rate = rate,
    .samples = samples,
};
