// zero_bubble - what ZB-H1 and ZB-H2 share.
//
// Problem: the bubble of 1f1b is time in which a rank waits for the gradient of the next
// chunk. Idea: only the gradient of the *input* is waited for. The gradient of the
// weights can be computed at any later time, so it is put where the rank would wait.
//
//   1f1b     F0 F1 F2 .  .  .  .  .  B0 B0 F3 B1 B1 ...
//   split    F0 F1 F2 .  .  .  I0 W0 F3 I1 W1 ...         I: input, W: weight gradient
//
// Two numbers make the schedule: how many forward rows a rank runs ahead of its first
// gradient, and how many micro-batches it may hold from forward to weight gradient.
// Once it holds so many, a weight gradient comes before each forward row. A longer lead
// fills the bubble before the first gradient, and takes memory.

#ifndef TT_PIPE_ZERO_BUBBLE_H
#define TT_PIPE_ZERO_BUBBLE_H

#include "pipe/inside.h"

// `slots`: most micro-batches in flight on any rank. P: ZB-H1; 2P - 1: ZB-H2.
tt_status tt__pipe_zero_bubble(tt_pipe *p, const tt_pipe_shape *s,
                               int32_t slots);

#endif
