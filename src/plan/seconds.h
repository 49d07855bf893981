// seconds - how long a segment takes on a machine of round numbers.

#ifndef TT_PLAN_SECONDS_H
#define TT_PLAN_SECONDS_H

#include "plan/plan.h"

// Of one row: the segment for one micro-batch, without collectives.
double tt_plan_seconds(const tt_plan *plan, int32_t segment);

#endif
