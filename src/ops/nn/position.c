// position - where a rank's entries of a dimension are in the whole. An index along a
// dim is a number whose digits are the indices of its factors (heads.head). A part has,
// for each digit, an interval of values, or two intervals in a zigzag.

#include "ops/nn/position.h"

int64_t tt_position_global(const tt_local *local, int d, int64_t i)
{
    const tt_shape *shape = &local->shape;
    int64_t at = 0;
    int64_t unit = 1;
    for (int f = shape->first[d + 1] - 1; f >= shape->first[d]; f--) {
        const int64_t size = shape->factor[f].size;
        at += tt_local_at(local, f, i % size) * unit;
        i /= size;
        unit *= local->global[f];
    }
    return at;
}

// The local index along factor f of a global index; -1: this part does not have it.
static int64_t digit_of(const tt_local *local, int f, int64_t at)
{
    int64_t i = at - local->origin[f];
    if (i < 0)
        return -1;
    if (local->gap != 0 && f == local->turn_factor && i >= local->turn) {
        i -= local->gap;
        if (i < local->turn)
            return -1; // in the gap between the two runs
    }
    return i < local->shape.factor[f].size ? i : -1;
}

int64_t tt_position_local(const tt_local *local, int d, int64_t at)
{
    const tt_shape *shape = &local->shape;
    int64_t i = 0;
    int64_t unit = 1;
    for (int f = shape->first[d + 1] - 1; f >= shape->first[d]; f--) {
        const int64_t digit = digit_of(local, f, at % local->global[f]);
        if (digit < 0)
            return -1;
        i += digit * unit;
        at /= local->global[f];
        unit *= shape->factor[f].size;
    }
    return at == 0 ? i : -1;
}

int64_t tt_position_extent(const tt_local *local, int d)
{
    int64_t n = 1;
    for (int f = local->shape.first[d]; f < local->shape.first[d + 1]; f++)
        n *= local->global[f];
    return n;
}
