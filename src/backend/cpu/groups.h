// groups - the dims of a large operand merged into as few as possible, where a smaller
// dense operand is broadcast over it.
//
// Neighbouring dims become one group if the small operand is contiguous along both, or
// repeated along both. Broadcasts and sums are then loops over groups:
//
//   big     [batch 8, seq 16, embed 32]
//   small   [embed 32]                    groups: 128 (repeated), 32 (stride 1)

#ifndef TT_BACKEND_CPU_GROUPS_H
#define TT_BACKEND_CPU_GROUPS_H

#include "graph/shape.h"

typedef struct tt__dim_group {
    int64_t n;
    int64_t stride; // of the small operand; 0: it is repeated
} tt__dim_group;

typedef struct tt__groups {
    int n; // 2 or more; those that are not needed come first, with extent 1
    tt__dim_group group[TT_MAX_DIMS + 2];
} tt__groups;

// map[d]: the dim of `small` that belongs to dim d of `big`, -1: none.
tt__groups tt__groups_of(const tt_shape *big, const tt_shape *small,
                         const int *map);

// Offset in the small operand of index i over all groups but the last two.
int64_t tt__groups_offset(const tt__groups *groups, int64_t i);

#endif
