// gossip - the options of gossip, as a struct, and its graphs.

#ifndef TT_POLICY_GOSSIP_H
#define TT_POLICY_GOSSIP_H

#include "base/settings/opt.h"

typedef enum tt_gossip_graph {
    TT_GOSSIP_RING,
    TT_GOSSIP_TORUS,
    TT_GOSSIP_EXPONENTIAL,
    TT_GOSSIP_HALTON,
    TT_GOSSIP_BUTTERFLY,
    TT_GOSSIP_COMPLETE,
    TT_GOSSIP_SHIFTS,
    TT_GOSSIP_EDGES,
    TT_GOSSIP_CYCLE,
    TT_GOSSIP_ARROWS,
} tt_gossip_graph;

typedef struct tt_gossip_params {
    int64_t every;
    int graph; // tt_gossip_graph
    bool turns, tracking, push;
    tt_i64s shifts;
    const char *edges;
    double gamma;
} tt_gossip_params;

// Refuses a graph that has no meaning for so many replicas, or in which they do not all hear
// of each other.
tt_status tt__gossip_check(const tt_gossip_params *p, int64_t replicas);
// Of how many graphs one after another is used.
int tt__gossip_turns(const tt_gossip_params *p, int64_t replicas);
// Whether replica i hears replica j in that turn: w[i * replicas + j] is 1; the others stay
// 0. False: all hear all.
bool tt__gossip_hears(const tt_gossip_params *p, int64_t replicas, int turn,
                      double *w);

#endif
