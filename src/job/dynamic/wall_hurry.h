// wall_hurry - stragglers by the wall clock: exchange.clock=absp. Files of job/ only.
//
// The problem. Under bsp all wait for the slowest gradient, though most of it may be done.
//
// The idea. A gradient is a sum over micro-batches. When enough workers have delivered, rank 0
// says so, and the others push the sum of what they have finished.
//
//   worker 0   | 0 | 1 | 2 | 3 | push           HURRY: gradients up to number k
//   worker 1   | 0 | 1 | 2 | 3 | push --> rank 0 --> all
//   worker 2   |     0     |     1     | push: without 2 and 3
//
// All workers compute gradients of the same number, so the letter names a number and no
// worker. One that comes when its worker has delivered says nothing more, and one that comes
// before its worker has weights is remembered: that worker pushes an empty sum.
//
// A letter is heard between kernels and heeded between micro-batches. How many were left out
// stands in the record, as the third number of a line, so a repetition leaves out the same.
//
// The cost: a letter to each rank in a step. A worker is waited for as long as one micro-batch.

#ifndef TT_JOB_DYNAMIC_WALL_HURRY_H
#define TT_JOB_DYNAMIC_WALL_HURRY_H

#include "job/dynamic/wall.h"

// Whether the clock takes parts of gradients.
bool tt__hurry_is(const tt_dynamic *d);
// Rank 0, after a delivery: the others are hurried, if it is time.
tt_status tt__hurry_say(tt_dynamic *d, int32_t worker);
// Gradients up to this number are.
void tt__hurry_heard(tt_dynamic *d, int64_t number);
// Whether the one that is computed is.
bool tt__hurry_is_over(const tt_dynamic *d);
// Before another micro-batch of it: whether this and those after it are left out.
tt_status tt__hurry_before(tt_dynamic *d, int32_t micro, bool *is_over_out);

#endif
