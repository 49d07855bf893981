// embed - tables that are read by index, and positions.

#ifndef TT_OPS_EMBED_H
#define TT_OPS_EMBED_H

#include "graph/build.h"

typedef struct tt_rotary_params {
    double theta;
    bool inverse; // turn back: the gradient
} tt_rotary_params;

// x [..., seq, embed] + w[position + index in seq]; position (an I64 scalar) may be
// TT_NONE: 0.
tt_val tt_position_embedding(tt_builder *b, tt_val x, tt_val w,
                             tt_val position);

// Turns pairs of entries of x [..., seq, heads, head] by their position.
tt_val tt_rotary(tt_builder *b, tt_val x, tt_val position, double theta);

#endif
