// local - workers make steps with an optimiser of their own and push what they have moved to
// a centre (asynchronous local SGD).
//
//   worker i   x_i = centre, h steps          d = x_i - what it got, x_i = centre, h steps ...
//   centre                                    centre = outer(centre, d)
//
// Every delta is applied when it comes. Without an outer optimiser that is Downpour as Zhang
// 2015 has it; optim=nesterov is asynchronous DiLoCo. The centre is the model. Staleness is
// that of deltas: others' that have come since.
//
//   sent   the delta and the centre, every few steps

#include "policy/peer.h"
#include "policy/policy.h"

#define AT(field) offsetof(tt_peer_params, field)

static const tt_opt options[] = {
    TT_PEER_OPTIONS,
    {"every", "4", "steps of a worker between two pushes", TT_OPT_I64,
     AT(every), NULL, 1, 1e9},
    {"optim", "none", "what is done with a delta", TT_OPT_CHOICE, AT(outer),
     "none|momentum|nesterov"},
    {"optim_lr", "1", "of the outer optimiser", TT_OPT_F64, AT(outer_lr), NULL,
     0, 100},
    {"optim_momentum", "0.9", "of the outer optimiser", TT_OPT_F64,
     AT(outer_momentum), NULL, 0, 1},
    {0},
};

static const char *const samples[] = {
    "every=2 optim_lr=0.5",
    "every=2 optim=momentum optim_lr=0.2 optim_momentum=0.5",
    "every=4 optim=nesterov optim_lr=0.2 optim_momentum=0.5",
    NULL,
};

const tt_policy_def tt_policy_local = {
    .name = "local",
    .doc = "Workers at their own pace push what steps of their own optimiser "
           "have moved to a centre.",
    .paper = "Downpour Dean 2012, Zhang 2015; asynchronous local SGD Liu 2024",
    .kind = TT_POLICY_DYNAMIC,
    .peer = TT_PEER_DELTAS,
    .options = options,
    .params_bytes = sizeof(tt_peer_params),
    .samples = samples,
};
