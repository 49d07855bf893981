// dynamic_math - one gradient, and one update: for whoever arranges them in another way than
// workers and a server do. Files of job/ only.

#ifndef TT_JOB_DYNAMIC_DYNAMIC_MATH_H
#define TT_JOB_DYNAMIC_DYNAMIC_MATH_H

#include "job/dynamic/dynamic.h"

// The gradient of one batch at `weights`, as a flat vector of sums; of a buffer what it has
// moved.
typedef struct tt__worker_feeding {
    tt_dynamic *d;
    int64_t first; // sample of the step
    int64_t micro; // that the feed is asked for next
    int32_t now;   // that is computed
} tt__worker_feeding;
// `weights`: NULL: the executor has them.
tt_status tt__worker_run(tt_dynamic *d, int64_t number, void *weights,
                         tt__worker_feeding *f, tt__push_head *head);
tt_status tt__worker_read(const tt_dynamic *d, void *weights, void *to);
// The part of a flat vector that is weights; buffers follow.
tt_vector_span tt__worker_weights(const tt_dynamic *d);

// The sum, clipped (its norm is that of the whole divided by `count`); the plan's update of
// the shard with it.
tt_status tt__dynamic_clip(tt_dynamic *d, double count);
tt_status tt__dynamic_update(tt_dynamic *d, double count, double rate);

// Weights come to a worker from a shard, or lie where they belong already.
tt_status tt__worker_fetch(tt_dynamic *d, int32_t worker, int32_t shard,
                           void *from);
// `weights` are whole.
tt_status tt__worker_gather(tt_dynamic *d, tt__dynamic_worker *w);

// What a gradient of this worker takes by trial.pace; 0: that says nothing.
double tt__worker_seconds(const tt_dynamic *d, int32_t worker);

// The gradient that waits in a slot: this shard's part.
static inline void *tt__waiting(const tt_dynamic *d, int32_t slot)
{
    return d->lent[slot] != NULL ? d->lent[slot] : d->slot[slot];
}

// A dense tensor of an executor as elements of the flat vector, and back.
tt_status tt__dynamic_read_part(const tt_dynamic *d, tt_exec *exec,
                                const tt_tensor *tensor, void *to);
tt_status tt__dynamic_write_part(const tt_dynamic *d, tt_exec *exec,
                                 const tt_tensor *tensor, const void *from);

#endif
