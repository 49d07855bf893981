// feed - what a loader delivers, in the types that a graph reads.

#ifndef TT_JOB_FEED_H
#define TT_JOB_FEED_H

#include "data/loader.h"
#include "exec/exec.h"

// Elements of this rank's part of an input.
int64_t tt_feed_count(const tt_plan *plan, const char *name);

// Writes this rank's piece of a batch, which has exactly its samples, into x and y,
// dense, in the types of the inputs "x" and "y". Tokens and labels that the model (`classes`: its
// vocabulary or classes) does not have are an error that names the first; a label
// below 0 is left out of the loss. y may be NULL.
tt_status tt_feed_batch(const tt_plan *plan, int64_t classes,
                        const tt_batch *batch, void *x, void *y);

// This rank's piece of one input from the samples that it was given, whole, in the input's
// own type.
void tt_feed_cut(const tt_plan *plan, const char *name, const void *samples,
                 void *piece_out);

// Gives every label below 0 the one number that losses leave out.
void tt_feed_leave_out(const tt_plan *plan, void *y);

// The input "stop" of a graph that asks for it: `wish` for every sample; `room` is of
// its size.
tt_status tt_feed_stop(tt_exec *exec, void *room, double wish);

#endif
