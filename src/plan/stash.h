// stash - places for older versions of weights; see stash.c. Files of this folder only.

#ifndef TT_PLAN_STASH_H
#define TT_PLAN_STASH_H

#include "plan/lower.h"

// Adds buffers for older versions, and finds which place each row reads. After all steps
// are there.
tt_status tt__stash_make(tt__lower *l);

// Whether row `at` of the order is this row of the schedule.
bool tt__is_row(const tt__lower *l, const tt_lower_row *row, int32_t at);

#endif
