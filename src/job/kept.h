// kept - micro-batches that are fed out of their order. Internal to job/.

#ifndef TT_JOB_KEPT_H
#define TT_JOB_KEPT_H

#include "job/ahead.h"

// Inputs of micro-batch `micro`, if they were read before their turn; else reads those
// before it, so that it comes next.
tt_status tt__kept_take(const tt__feeding *feeding, int32_t micro,
                        bool *is_taken_out);
void tt__kept_free(tt_kept *kept);

#endif
