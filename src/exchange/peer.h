// peer - workers with weights and an optimiser of their own: what happens when one of them
// has computed a gradient, without the numbers.
//
// A policy is a short program that a delivery runs. Each operation is a mix of two vectors,
// wherever they lie, or a step of a worker's optimiser:
//
//   adpsgd, worker 2 with 5     spare.2 = x.5
//                               x.5 = x.2 / 2 + x.5 / 2
//                               x.2 = spare.2 / 2 + x.2 / 2
//                               step 2
//
// Operations are a pure function of the order of deliveries, as a server's rules are
// (exchange/server.h): partners are drawn from (seed, worker, number). So every rank works
// out the same list and does its part of it, and who knows the order can repeat a run.
//
// Messages wait in boxes of the one that is to read them. They are saved with the rest.
//
// Shares (sum-weight gossip) are whole units, of which there are always as many. One that
// has a single unit left sends nothing.

#ifndef TT_EXCHANGE_PEER_H
#define TT_EXCHANGE_PEER_H

#include "base/arena.h"
#include "base/status.h"
#include "policy/peer.h"

#include <stdbool.h>
#include <stdint.h>

// What a vector is of.
typedef enum tt_peer_vector {
    TT_PEER_WEIGHTS,  // of a worker
    TT_PEER_GRADIENT, // that it delivers
    TT_PEER_SPARE,    // room beside it
    TT_PEER_FETCHED,  // what it has got of the centre
    TT_PEER_BOX,      // a message for worker `of` / boxes
    TT_PEER_MIDDLE,   // the centre,
    TT_PEER_SPEED,    // and its momentum
    TT_PEER_MODEL,    // what is evaluated and saved
    TT_PEER_VECTORS,
} tt_peer_vector;

typedef struct tt_peer_place {
    tt_peer_vector what;
    int32_t of;
} tt_peer_place;

typedef enum tt_peer_do {
    TT_PEER_MIX,  // y = a x + b y; b = 0: whatever y was
    TT_PEER_MEAN, // the gradient y becomes a mean over its samples
    TT_PEER_STEP, // a step of the optimiser of y along its gradient
} tt_peer_do;

typedef struct tt_peer_op {
    tt_peer_do what;
    tt_peer_place y, x;
    double a, b;
} tt_peer_op;

typedef struct tt_peer_rules {
    tt_peer_kind kind;
    int32_t workers;
    uint64_t seed;
    const tt_peer_params *params;
} tt_peer_rules;

typedef struct tt_peer_worker {
    int64_t number;    // deliveries
    int64_t share;     // units
    int64_t since;     // adpsgd: means that others took with it; local: the
                       // centre's version that it has
    int64_t sent, got; // vectors
} tt_peer_worker;

typedef struct tt_peer_state {
    tt_peer_rules rules;
    tt_peer_worker *worker;
    int32_t boxes;    // of each worker
    int64_t *box;     // units in each; 0: it is empty
    int64_t *by;      // to whom a worker writes: so many further
    int64_t version;  // of the centre
    int64_t messages; // that were sent
    tt_peer_op *op;   // of the last delivery
    int32_t n_ops;
} tt_peer_state;

tt_status tt_peer_init(tt_peer_state *peer, const tt_peer_rules *rules,
                       tt_arena *arena);

// What is to be done when `worker` has computed its gradient; then it goes on with its
// weights. Returns how old the gradient (local: its delta) is; below 0: none was used.
int64_t tt_peer_deliver(tt_peer_state *peer, int32_t worker);

// Gradients (local: deltas) of a worker whose age was counted.
int64_t tt_peer_used(const tt_peer_state *peer, int32_t worker);

// How the model is made of what there is.
void tt_peer_model(tt_peer_state *peer);

// Whether the policy has a vector of this kind.
bool tt_peer_has(const tt_peer_state *peer, tt_peer_vector what);

// As numbers, for checkpoints. Numbers that no run has are refused.
int64_t tt_peer_count(const tt_peer_state *peer);
void tt_peer_save(const tt_peer_state *peer, double *numbers);
tt_status tt_peer_load(tt_peer_state *peer, const double *numbers);

#endif
