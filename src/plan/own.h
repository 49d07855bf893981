// own - types of values as this rank has them.

#ifndef TT_PLAN_OWN_H
#define TT_PLAN_OWN_H

#include "plan/plan.h"

// The value's type in the graph; of what is own (graph/place.h), with the shape that this
// rank has.
const tt_type *tt_plan_type(const tt_plan *plan, int32_t v);

#endif
