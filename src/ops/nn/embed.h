// embed - tables that are read by index, and positions.

#ifndef TT_OPS_NN_EMBED_H
#define TT_OPS_NN_EMBED_H

#include "graph/build.h"

// How frequencies change for texts longer than a model was trained on at first.
typedef enum tt_rotary_scaling {
    TT_ROTARY_PLAIN,  // not at all
    TT_ROTARY_LINEAR, // all are divided by `factor`
    // Frequencies that turn less than `low` times in `context` tokens are divided;
    // those that turn more than `high` times stay; between them there is a ramp.
    TT_ROTARY_LLAMA3,
    TT_ROTARY_YARN, // the same with a ramp over the number of the pair
} tt_rotary_scaling;

typedef struct tt_rotary_params {
    double theta;
    bool inverse; // turn back: the gradient
    int scaling;  // tt_rotary_scaling
    double factor, low, high, context;
    double amplitude; // of the turned pairs (YaRN's attention factor)
} tt_rotary_params;

// The same as numbers, so that kernels need not know the kinds:
//   f = theta^(-i / half)   m = at + per_pair i + per_frequency f, within 0 and 1
//   frequency of pair i = f (m + (1 - m) / factor)
typedef struct tt_rotary_turns {
    double theta, factor, amplitude;
    double at, per_pair, per_frequency;
} tt_rotary_turns;
tt_rotary_turns tt_rotary_turns_of(const tt_rotary_params *params,
                                   int64_t head);
double tt_rotary_frequency(const tt_rotary_turns *turns, int64_t i,
                           int64_t half);

// x [..., seq, embed] + w[position + index in seq]; position (an I64 scalar) may be
// TT_NONE: 0.
tt_val tt_position_embedding(tt_builder *b, tt_val x, tt_val w,
                             tt_val position);

// Turns pairs of entries of x [..., seq, heads, head] by their position.
tt_val tt_rotary(tt_builder *b, tt_val x, tt_val position,
                 const tt_rotary_params *params);

#endif
