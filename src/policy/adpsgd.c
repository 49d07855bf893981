// adpsgd - a worker takes the mean with one other worker after each gradient (AD-PSGD).
//
//   worker 0   gradient  (x0 + x3) / 2, step     gradient ...
//   worker 3        gradient   |           (x3 + x1) / 2, step
//                              x3 is the same mean
//
// The mean is taken at once on both sides; whoever else computes goes on computing. So a
// gradient is of weights that others may have moved since: it is applied to what they are
// after the mean. Staleness counts how often others did.
//
//   sent   the weights, there and back, in every step

#include "policy/peer.h"
#include "policy/policy.h"

#define AT(field) offsetof(tt_peer_params, field)

static const tt_opt options[] = {
    TT_PEER_OPTIONS,
    {"every", "1", "steps of a worker between two means", TT_OPT_I64, AT(every),
     NULL, 1, 1e9},
    {"graph", "complete",
     "with whom: anybody, neighbours on a ring, or workers of even number with "
     "those of odd number",
     TT_OPT_CHOICE, AT(graph), "complete|ring|bipartite"},
    {0},
};

static const char *const samples[] = {
    "every=1",
    "every=2 graph=ring",
    "graph=bipartite",
    NULL,
};

const tt_policy_def tt_policy_adpsgd = {
    .name = "adpsgd",
    .doc = "Workers at their own pace take the mean with a random one after "
           "each gradient.",
    .paper = "AD-PSGD Lian 2018",
    .kind = TT_POLICY_DYNAMIC,
    .peer = TT_PEER_PAIRS,
    .options = options,
    .params_bytes = sizeof(tt_peer_params),
    .samples = samples,
};
