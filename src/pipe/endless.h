// endless - what the schedules without flush share.
//
// Problem: a flush empties the pipe at each update, and that is the bubble. Idea: do not
// wait. The next step's micro-batches follow at once, and the weights change while
// micro-batches are on their way. Then a micro-batch may meet other weights on its way
// back than on its way forward; the schedules differ in what they do about that.
//
//   rank 0   F0 F1 F2 F3 .  .  B0 U0 F4 B1 U1 F5 B2 U2 ...      one micro-batch a step

#ifndef TT_PIPE_ENDLESS_H
#define TT_PIPE_ENDLESS_H

#include "pipe/inside.h"

// 1f1b over all steps of the table; an update after each step's last gradient.
tt_status tt__pipe_endless(tt_pipe *p, const tt_pipe_shape *s);

// The pipe fills once and empties once per table, not per step.
double tt__pipe_endless_bubble(const tt_pipe_shape *s, const void *params,
                               const tt_pipe_even *t);
int64_t tt__pipe_endless_slots(const tt_pipe_shape *s, const void *params,
                               int32_t rank);

#endif
