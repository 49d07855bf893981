// dynamic_post - messages between ranks that follow the same list of events. See dynamic.h.

#ifndef TT_JOB_DYNAMIC_DYNAMIC_POST_H
#define TT_JOB_DYNAMIC_DYNAMIC_POST_H

#include "base/status.h"

#include <stdint.h>

typedef struct tt_dynamic tt_dynamic; // job/dynamic/dynamic.h

// Bytes from one rank to another, both come to it; of a rank to itself nothing. A
// rank that waits computes meanwhile, but not by the wall clock.
typedef struct tt__post {
    int32_t from, to;
    void *data; // of `from`, only read
    void *room; // of `to`
    int64_t bytes;
} tt__post;
tt_status tt__post_all(tt_dynamic *d, const tt__post *post, int n);
// Fails if a rank was given up, this one too: it may have been stopped for a while, and have
// gone on with messages that were there. The log must not have such a step.
tt_status tt__post_alive(const tt_dynamic *d);
// Sums over all ranks, in place: of numbers that one rank has and the others have not (0).
tt_status tt__post_sum(const tt_dynamic *d, double *v, int64_t n);

#endif
