// ps - a parameter server: workers fetch weights, compute a gradient of their own
// micro-batch, push it, and fetch again. The server makes the updates.
//
//   worker 0   fetch  gradient        push/fetch  gradient   ...
//   worker 1   fetch  gradient  push/fetch  gradient  push/fetch
//   server                      update            update
//
// When gradients become an update, and who may go on, is the clock's; what is done about
// gradients of old weights is exchange.staleness.

#include "policy/policy.h"
#include "policy/server.h"

#define AT(field) offsetof(tt_ps_params, field)

static const tt_opt options[] = {
    TT_PACE_OPTIONS,
    {"clock", "async", "when gradients become an update, and who may go on",
     TT_OPT_CHOICE, AT(clock),
     "async|bsp|ssp|softsync|backup|quorum|delay|value|essp|absp"},
    {"bound", "-1",
     "the clock's number: ssp's and essp's lead, softsync's and quorum's "
     "gradients, absp's workers, "
     "backup's workers, delay's updates, value's distance; below 0: its usual "
     "one",
     TT_OPT_F64, AT(bound), NULL, -1, 1e15},
    TT_STALE_OPTION(AT(staleness)),
    {"reject", "8", "staleness=reject: gradients that are older, in updates",
     TT_OPT_I64, AT(reject), NULL, 0, 1e9},
    {"lambda", "0.04", "staleness=compensate: how much", TT_OPT_F64, AT(lambda),
     NULL, 0, 1e6},
    {"gather", "mean", "how the gradients of an update become one",
     TT_OPT_CHOICE, AT(gather), "mean|median|trimmed|krum"},
    {"bad", "1", "gather=trimmed and krum: workers that may send anything",
     TT_OPT_I64, AT(bad), NULL, 0, 1024},
    {"limit", "0",
     "a longer mean gradient is refused, as is one that is not finite; 0: any "
     "length will do",
     TT_OPT_F64, AT(limit), NULL, 0, 1e300},
    {"server", "single",
     "where weights are kept: at rank 0, or in shards beside the workers",
     TT_OPT_CHOICE, AT(server), "single|sharded"},
    {"servers", "0",
     "ranks, from the first on, that keep weights and have no workers; 0: "
     "weights are kept beside workers",
     TT_OPT_I64, AT(servers), NULL, 0, 1e6},
    {"chain", "1",
     "server=sharded: ranks that hold each shard of the weights, its own and "
     "the next ones in a ring; 1: there are no copies",
     TT_OPT_I64, AT(chain), NULL, 1, 1e6},
    {"proxies", "0",
     "between workers and the server: each adds up the gradients of a group of "
     "workers and hands it weights; 0: none",
     TT_OPT_I64, AT(proxies), NULL, 0, 1e6},
    {"optimiser", "server",
     "where it runs: at the server, which gets gradients, or at each worker, "
     "which pushes the change of its weights",
     TT_OPT_CHOICE, AT(optimiser), "server|worker"},
    {"local_steps", "1",
     "of a worker between two pushes: it pushes the sum of their gradients",
     TT_OPT_I64, AT(local_steps), NULL, 1, 1e6},
    {"local_lr", "0", "of these steps; 0: the server's", TT_OPT_F64,
     AT(local_lr), NULL, 0, 1e6},
    {"proximal", "0",
     "local steps: how strongly a worker is pulled to the weights that it got",
     TT_OPT_F64, AT(proximal), NULL, 0, 1e6},
    {0},
};

const tt_policy_def tt_policy_ps = {
    .name = "ps",
    .doc = "Workers push gradients to a server and fetch weights, each at its "
           "own pace.",
    .paper = "Dean 2012, Ho 2013, Li 2014; softsync Zhang 2016; backup Chen "
             "2016; compensation Zheng 2017; proxies Gupta 2016; chains van "
             "Renesse 2004",
    .kind = TT_POLICY_DYNAMIC,
    .options = options,
    .params_bytes = sizeof(tt_ps_params),
};
