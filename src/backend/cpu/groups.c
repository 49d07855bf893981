// groups - merges dims from the last to the first.

#include "backend/cpu/groups.h"

#include <string.h>

// Neighbours join if both are repeated or neither is. No stride needs checking: the
// small operand is dense, so its dims that are not repeated are contiguous.
static bool joins(const tt__dim_group *inner, int64_t stride)
{
    return (inner->stride == 0) == (stride == 0);
}

tt__groups tt__groups_of(const tt_shape *big, const tt_shape *small,
                         const int *map)
{
    tt__groups g = {0};
    tt__dim_group reversed[TT_MAX_DIMS];
    int64_t stride[TT_MAX_DIMS];
    int n = 0;
    tt_shape_strides(small, stride);
    for (int d = big->ndim - 1; d >= 0; d--) {
        const int64_t extent = tt_shape_dim(big, d);
        const bool is_repeated = map[d] < 0 || tt_shape_dim(small, map[d]) == 1;
        const int64_t step = is_repeated ? 0 : stride[map[d]];
        if (extent == 1)
            continue;
        if (n > 0 && joins(&reversed[n - 1], step))
            reversed[n - 1].n *= extent;
        else
            reversed[n++] = (tt__dim_group){extent, step};
    }
    while (g.n + n < 2)
        g.group[g.n++] = (tt__dim_group){1, 0};
    while (n > 0)
        g.group[g.n++] = reversed[--n];
    return g;
}

int64_t tt__groups_offset(const tt__groups *groups, int64_t i)
{
    int64_t offset = 0;
    for (int k = groups->n - 3; k >= 0; k--) {
        offset += i % groups->group[k].n * groups->group[k].stride;
        i /= groups->group[k].n;
    }
    return offset;
}
