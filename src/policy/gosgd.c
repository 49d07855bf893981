// gosgd - workers send their weights to a random one now and then, with a share of their
// say (GoSGD; sum-weight gossip).
//
//   after a step, with probability p    a_i = a_i / 2, (x_i, a_i) goes to j
//   before its next gradient j takes    x_j = (a_j x_j + a_i x_i) / (a_j + a_i), a_j += a_i
//
// Nobody waits and nobody answers. The shares add up to 1, messages on their way counted, and
// the mean by shares is the model: messages do not change it. Shares are counted in whole
// units, so the sum is exact.
//
//   sent   the weights, with probability p

#include "policy/peer.h"
#include "policy/policy.h"

#define AT(field) offsetof(tt_peer_params, field)

static const tt_opt options[] = {
    TT_PEER_OPTIONS,
    {"probability", "0.1", "of a message after a step of a worker", TT_OPT_F64,
     AT(probability), NULL, 0, 1},
    {0},
};

static const char *const samples[] = {
    "probability=0.1",
    "probability=1",
    NULL,
};

const tt_policy_def tt_policy_gosgd = {
    .name = "gosgd",
    .doc = "Workers at their own pace send weights and half of their share to "
           "a random one, now and then.",
    .paper = "GoSGD Blot 2016; sum-weight gossip Kempe 2003",
    .kind = TT_POLICY_DYNAMIC,
    .peer = TT_PEER_SHARES,
    .options = options,
    .params_bytes = sizeof(tt_peer_params),
    .samples = samples,
};
