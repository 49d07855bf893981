// easgd - workers at their own pace and a centre pull at each other (asynchronous EASGD).
//
//   every few steps of worker i    d = x_i - centre
//                                  x_i = x_i - alpha d, centre = centre + alpha d
//
// Nobody waits for another worker. The gradient of that step is of x_i before the pull. The
// centre is the model. With optim=momentum it is EAMSGD. exchange.policy=elastic is the
// same with all workers at once.
//
//   sent   the centre and the difference, every few steps

#include "policy/peer.h"
#include "policy/policy.h"

#define AT(field) offsetof(tt_peer_params, field)

static const tt_opt options[] = {
    TT_PEER_OPTIONS,
    {"every", "4", "steps of a worker between two pulls", TT_OPT_I64, AT(every),
     NULL, 1, 1e9},
    {"alpha", "-1",
     "how far a worker and the centre go to each other; below 0: beta over the "
     "workers",
     TT_OPT_F64, AT(alpha), NULL, -1, 1},
    {"beta", "0.9", "how far the centre goes in a round of all workers",
     TT_OPT_F64, AT(beta), NULL, 0, 1},
    {0},
};

static const char *const samples[] = {
    "every=2",
    "every=1 alpha=0.2",
    NULL,
};

const tt_policy_def tt_policy_easgd = {
    .name = "easgd",
    .doc = "Workers at their own pace and a centre pull at each other every "
           "few steps.",
    .paper = "asynchronous EASGD, EAMSGD Zhang 2015",
    .kind = TT_POLICY_DYNAMIC,
    .peer = TT_PEER_CENTRE,
    .options = options,
    .params_bytes = sizeof(tt_peer_params),
    .samples = samples,
};
