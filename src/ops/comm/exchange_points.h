// exchange_points - where weights and gradients meet the other ranks.
//
//   fetch   a weight is read       offer   a gradient is finished
//   agree   an update is done      tally   a value is summed over micro-batches
//
// They mark places in the graph. For one process they do nothing, or a sum. Passes
// replace them by what a policy needs: with data parallelism an offer becomes an
// all-reduce, with ZeRO a reduce-scatter, and agree an all-gather.

#ifndef TT_OPS_COMM_EXCHANGE_POINTS_H
#define TT_OPS_COMM_EXCHANGE_POINTS_H

#include "graph/build.h"

tt_val tt_agree(tt_builder *b, tt_val w);
tt_val tt_tally(tt_builder *b, tt_val x);

#endif
