// allreduce - gradients are summed over all replicas in every step, and all make the same
// update. With a codec they send codes of their gradients (pass/exchange.c).

#include "policy/policy.h"

const tt_policy_def tt_policy_allreduce = {
    .name = "allreduce",
    .doc = "Gradients are summed over all replicas in every step.",
    .kind = TT_POLICY_SUM,
};
