// moe - mixtures of experts: tokens are sent to the few experts that a router likes
// best, as far as these have room.
//
//   logits [batch, seq, experts] -> route -> gate, place [batch, seq, choice]
//   x [batch, seq, embed] -> dispatch -> [experts, batch, slot, embed] -> experts
//     -> combine -> [batch, seq, embed]
//
// Slots are given out within each sample: all first choices before second ones, in the
// order of tokens. A sample is never split between ranks here, so the result does not
// depend on their number. place is expert * slots + slot, or -1 - expert for a choice
// that found no room.

#ifndef TT_OPS_NN_MOE_H
#define TT_OPS_NN_MOE_H

#include "graph/build.h"

typedef struct tt_route_params {
    int64_t choices; // experts per token
    int64_t slots;   // tokens per expert and sample
} tt_route_params;

typedef struct tt_dispatch_params {
    int64_t experts, slots;
} tt_dispatch_params;

typedef struct tt_routed {
    tt_val gate;  // weights of the choices, whose sum is 1
    tt_val place; // int32
    tt_val
        balance; // a sum over tokens: 1 each when all experts are liked equally
} tt_routed;

tt_routed tt_route(tt_builder *b, tt_val logits, int64_t choices,
                   int64_t slots);

// `gate` may be TT_NONE: 1.
tt_val tt_dispatch(tt_builder *b, tt_val x, tt_val place, tt_val gate,
                   const tt_dispatch_params *params);
tt_val tt_combine(tt_builder *b, tt_val y, tt_val place, tt_val gate);

#endif
