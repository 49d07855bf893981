// malt - workers write into their neighbours' buffers and fold what they find in their own
// (MALT).
//
//   worker i   gradient, step, write to each neighbour's buffer for i, fold my buffers, gradient
//
// Neighbours are fixed: worker i writes to i + n/2, i + n/4, i + 3n/4, ... (Halton), so that
// all hear of all with few messages. A buffer has room for one: what nobody has read yet is
// overwritten. With push=gradient gradients are written and each step is along their mean.
//
//   sent   weights or gradients, once for each neighbour

#include "policy/peer.h"
#include "policy/policy.h"

#define AT(field) offsetof(tt_peer_params, field)

static const tt_opt options[] = {
    TT_PEER_OPTIONS,
    {"every", "1", "steps of a worker between two writes", TT_OPT_I64,
     AT(every), NULL, 1, 1e9},
    {"graph", "halton", "to whom a worker writes", TT_OPT_CHOICE, AT(graph),
     "halton|exponential|ring|complete"},
    {"push", "weights", "what is written", TT_OPT_CHOICE, AT(push),
     "weights|gradient"},
    {0},
};

static const char *const samples[] = {
    "every=1",
    "every=2 graph=ring",
    "graph=complete",
    "push=gradient graph=exponential",
    NULL,
};

const tt_policy_def tt_policy_malt = {
    .name = "malt",
    .doc = "Workers at their own pace write weights or gradients into their "
           "neighbours' buffers.",
    .paper = "MALT Li 2015",
    .kind = TT_POLICY_DYNAMIC,
    .peer = TT_PEER_SCATTER,
    .options = options,
    .params_bytes = sizeof(tt_peer_params),
    .samples = samples,
};
