// peer - the options of policies in which workers have weights and an optimiser of their
// own and go at their own pace, as a struct.

#ifndef TT_POLICY_PEER_H
#define TT_POLICY_PEER_H

#include "policy/server.h"

typedef enum tt_peer_kind {
    TT_PEER_NONE, // workers compute with a server's weights
    TT_PEER_PAIRS,
    TT_PEER_SHARES,
    TT_PEER_SCATTER,
    TT_PEER_CENTRE,
    TT_PEER_DELTAS,
    TT_PEER_SHARED, // weights are in memory that all see: there are no messages
} tt_peer_kind;

typedef enum tt_pairs_graph { // who takes the mean with whom
    TT_PAIRS_COMPLETE,
    TT_PAIRS_RING,
    TT_PAIRS_BIPARTITE,
} tt_pairs_graph;

typedef enum tt_scatter_graph { // who writes to whom
    TT_SCATTER_HALTON,
    TT_SCATTER_EXPONENTIAL,
    TT_SCATTER_RING,
    TT_SCATTER_COMPLETE,
} tt_scatter_graph;

typedef enum tt_scatter_what {
    TT_SCATTER_WEIGHTS,
    TT_SCATTER_GRADIENT,
} tt_scatter_what;

typedef enum tt_peer_outer {
    TT_PEER_PLAIN,
    TT_PEER_MOMENTUM,
    TT_PEER_NESTEROV,
} tt_peer_outer;

typedef struct tt_peer_params {
    tt_pace_params pace;
    double limit;       // a longer mean gradient is refused; 0: any length
    int64_t every;      // of a worker's steps with others
    int graph;          // tt_pairs_graph, tt_scatter_graph
    double probability; // of a message after a step
    int push;           // of TT_PEER_SCATTER: tt_scatter_what
    double alpha;       // of TT_PEER_CENTRE: pull; below 0: beta / workers
    double beta;
    int outer; // of TT_PEER_DELTAS: tt_peer_outer
    double outer_lr, outer_momentum;
    int64_t copies; // of TT_PEER_SHARED: of the weights,
    int words;      // in 16 bits: 1; else 0
    int moves;      // of 8 bits: 1; else 0
} tt_peer_params;

// Rows that all of them have.
#define TT_PEER_OPTIONS                                                        \
    TT_PACE_OPTIONS,                                                           \
    {                                                                          \
        "limit", "0",                                                          \
            "a longer mean gradient is refused, as is one that is not "        \
            "finite; 0: any length will do",                                   \
            TT_OPT_F64, offsetof(tt_peer_params, limit), NULL, 0, 1e300        \
    }

#endif
