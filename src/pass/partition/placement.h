// placement - what it costs to change a placement.

#ifndef TT_PASS_PARTITION_PLACEMENT_H
#define TT_PASS_PARTITION_PLACEMENT_H

#include "graph/op.h"

// Bytes that each rank sends to bring a value of `bytes` from one placement to
// another on an axis of `size` ranks; negative: cannot be done.
double tt_placement_bytes(const tt_place *from, const tt_place *to,
                          double bytes, int size);

double tt_type_bytes(const tt_type *type);

#endif
