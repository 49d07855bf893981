// partial - after every step each replica tells all others one part of what it has changed;
// the parts take turns (Ako).
//
//   parts=3     step 1    step 2    step 3    step 4
//   sent        [#][ ][ ] [ ][#][ ] [ ][ ][#] [#][ ][ ]      # all that was changed there
//                                                            since it was sent last
//
// Nothing is lost: a change waits for its turn and adds up until then. Let m be what all
// have heard (the model), and a what a replica has not told yet. It goes on from
//
//   x = m + a / n                 its own changes count as much as those of others do: the
//                                 n-th part of a mean
//   m = m + mean of a, a = 0      of the part whose turn it is
//
// In the paper parts travel while the next steps are computed. Here they have arrived
// before the next step, so that with one part and plain SGD this is summing gradients.
//
//   sent   a part of the weights' bytes in every step

#include "ops/arith.h"
#include "ops/shape/move.h"
#include "policy/policy.h"

typedef struct tt_partial_params {
    int64_t parts;
} tt_partial_params;

static const tt_opt options[] = {
    {"parts", "4", "of the weights, which are sent in turns", TT_OPT_I64,
     offsetof(tt_partial_params, parts), NULL, 1, TT_POLICY_VARIANTS},
    {0},
};

static int parts(const void *params)
{
    return (int)((const tt_partial_params *)params)->parts;
}

static int variants(const void *params, int64_t replicas)
{
    (void)replicas;
    return parts(params);
}

static bool is_due(const void *params, int64_t replicas, int64_t step,
                   int variant)
{
    (void)replicas;
    return (step - 1) % parts(params) == variant;
}

static int states(const void *params, const tt_policy_state **state_out)
{
    static const tt_policy_state untold[] = {{.name = "untold"}};
    *state_out = untold;
    return parts(params) > 1 ? 1 : 0;
}

static bool keeps_model(const void *params)
{
    (void)params;
    return true;
}

static tt_val untold(tt_builder *b, const tt_agreement *a)
{
    return parts(a->params) == 1 ? tt_policy_add(b, a->x, -1, a->model)
                                 : tt_policy_untold(b, a);
}

static tt_status send(tt_builder *b, tt_agreement *a)
{
    a->sent = untold(b, a);
    return b->status;
}

static tt_status take(tt_builder *b, tt_agreement *a)
{
    a->model_out = tt_add(b, a->model, a->got[0]);
    a->x_out = a->model_out;
    if (parts(a->params) > 1)
        a->state_out[0] = tt_fill(b, a->sent, 0);
    return b->status;
}

static tt_status rest(tt_builder *b, tt_agreement *a)
{
    const tt_val all = untold(b, a);
    a->state_out[0] = all;
    a->x_out = tt_policy_add(b, a->model, 1 / (double)a->replicas, all);
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
    "parts=1",
    "parts=2",
    "parts=3",
    NULL,
};

const tt_policy_def tt_policy_partial = {
    .name = "partial",
    .doc = "Replicas tell each other a part of what they have changed after "
           "every step.",
    .paper = "Ako Watcharapichat 2016",
    .kind = TT_POLICY_STATIC,
    .options = options,
    .params_bytes = sizeof(tt_partial_params),
    .variants = variants,
    .is_due = is_due,
    .parts = parts,
    .states = states,
    .keeps_model = keeps_model,
    .send = send,
    .take = take,
    .rest = rest,
    .rate = rate,
    .samples = samples,
};
