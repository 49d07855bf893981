// federated - rounds: in each, some of many clients get the weights, train on data of
// their own, and send what they have changed; the server takes the mean for a step.
//
//   server      w ----+--------+--------------------+-> w - optim(mean of w - w_k)
//   client 3          +-> h local steps -> w_3 - w -^
//   client 8                   +-> ...  -> w_8 - w -^      (the others do nothing)
//
// The mean weighs clients by their samples. It is the gradient of the server's optimiser:
// optim=sgd with optim.lr=1 is FedAvg, with momentum FedAvgM, with adam FedAdam.
//
// Cost: a round sends the weights to each client and as much back, or a code of it. A client
// that is not asked keeps nothing but a number; with control variates, or with residuals of
// codes, it keeps a vector.

#include "policy/federated.h"

#include "policy/policy.h"

#define AT(field) offsetof(tt_federated_params, field)

static const tt_opt options[] = {
    TT_PACE_OPTIONS,
    {"fraction", "1",
     "part of the clients (exchange.replicas) that a round asks", TT_OPT_F64,
     AT(fraction), NULL, 0, 1},
    {"local_steps", "1",
     "batches of a client in a round, one step of plain descent each",
     TT_OPT_I64, AT(ps.local_steps), NULL, 1, 1e6},
    {"local_epochs", "0",
     "passes over a client's own data in a round; 0: local_steps", TT_OPT_I64,
     AT(local_epochs), NULL, 0, 1e6},
    {"local_lr", "0.1", "rate of a client's steps", TT_OPT_F64, AT(ps.local_lr),
     NULL, 0, 1e6},
    {"proximal", "0",
     "how strongly a client is pulled to the weights that it got", TT_OPT_F64,
     AT(ps.proximal), NULL, 0, 1e6},
    {"control", "none",
     "scaffold: control variates take the drift out of clients' steps",
     TT_OPT_CHOICE, AT(control), "none|scaffold"},
    {"weights", "size",
     "of clients in the mean: by their samples, or all the same", TT_OPT_CHOICE,
     AT(weights), "size|equal"},
    {"split", "iid",
     "which data are whose: dealt, drawn by label, few labels each, stretches, "
     "stretches of whole documents, or images of one user",
     TT_OPT_CHOICE, AT(split), "iid|dirichlet|label|contiguous|document|user"},
    {"alpha", "0.1", "split=dirichlet: smaller is less even", TT_OPT_F64,
     AT(alpha), NULL, 1e-6, 1e6},
    {"labels", "2", "split=label: pieces of one label that a client has",
     TT_OPT_I64, AT(labels), NULL, 1, 1e6},
    {"over", "1",
     "asks so many times the clients that are wanted, and takes the first",
     TT_OPT_F64, AT(over), NULL, 1, 1e6},
    {"deadline", "0",
     "of a client's answer, in local steps at speed 1; who is later is left "
     "out; 0: none",
     TT_OPT_F64, AT(deadline), NULL, 0, 1e15},
    {"drop", "0",
     "how probable it is that a client goes away before it has answered",
     TT_OPT_F64, AT(drop), NULL, 0, 1},
    {"clip", "0",
     "longest change of a client: a longer one is shortened to it; 0: as it is",
     TT_OPT_F64, AT(clip), NULL, 0, 1e30},
    {"noise", "0",
     "deviation of the noise on the sum of changes, in lengths of clip",
     TT_OPT_F64, AT(noise), NULL, 0, 1e6},
    {"delta", "1e-5", "chance for which the epsilon that was spent is told",
     TT_OPT_F64, AT(delta), NULL, 1e-30, 0.5},
    {"masks", "false",
     "clients hide their changes under masks that cancel in the sum",
     TT_OPT_BOOL, AT(masks)},
    {"limit", "0",
     "a longer change of a client is refused, as is one that is not finite; 0: "
     "any length will do",
     TT_OPT_F64, AT(ps.limit), NULL, 0, 1e300},
    {0},
};

const tt_policy_def tt_policy_federated = {
    .name = "federated",
    .doc = "In rounds, some of many clients train on data of their own; the "
           "server takes the mean of what they changed for a step.",
    .paper = "McMahan 2017; rounds Bonawitz 2019; FedProx Li 2020; SCAFFOLD "
             "Karimireddy 2020; FedAdam Reddi 2021",
    .kind = TT_POLICY_DYNAMIC,
    .is_drawn = true,
    .options = options,
    .params_bytes = sizeof(tt_federated_params),
};
