// exchange_points - where weights and gradients meet the world: fetch, offer, agree; and
// tally, which sums a value over micro-batches.
//
// One process reads and writes its own memory, so all of them are free or a sum.
// Passes replace them by what a policy needs.

#ifndef TT_OPS_COMM_EXCHANGE_POINTS_H
#define TT_OPS_COMM_EXCHANGE_POINTS_H

#include "graph/build.h"

tt_val tt_agree(tt_builder *b, tt_val w);
tt_val tt_tally(tt_builder *b, tt_val x);

#endif
