// allreduce - gradients are summed over all replicas in every step, and all make the same
// update. With a codec they send codes of their gradients (pass/exchange.c).
//
// Gradients are old only where stages do not empty the pipe before an update
// (pipe.schedule); what is done about it then is exchange.staleness.

#include "policy/policy.h"
#include "policy/stale.h"

static const tt_opt options[] = {
    TT_STALE_OPTION(offsetof(tt_sum_params, staleness)), {0}};

const tt_policy_def tt_policy_allreduce = {
    .name = "allreduce",
    .doc = "Gradients are summed over all replicas in every step.",
    .kind = TT_POLICY_SUM,
    .options = options,
    .params_bytes = sizeof(tt_sum_params),
};
