// position - where the entries of one local dimension are in the whole tensor.
// Kernels that depend on global indices (masks, positions, vocabulary slices)
// ask here, so that they work on any part.

#ifndef TT_OPS_NN_POSITION_H
#define TT_OPS_NN_POSITION_H

#include "graph/place.h"

// Global index along dim d of local index i.
int64_t tt_position_global(const tt_local *local, int d, int64_t i);

// Local index along dim d of global index `at`; -1 when it is on another rank.
int64_t tt_position_local(const tt_local *local, int d, int64_t at);

// Global extent of dim d.
int64_t tt_position_extent(const tt_local *local, int d);

#endif
