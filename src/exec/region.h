// region - boxes of a value's elements, and moving them between dense parts.
//
// A rank's part of a value is a box in the space of its factors, so what one rank
// must send to another is the intersection of two boxes.

#ifndef TT_EXEC_REGION_H
#define TT_EXEC_REGION_H

#include "comm/fold.h"
#include "graph/place.h"

typedef struct tt_region {
    int32_t n; // factors
    int64_t origin[TT_MAX_FACTORS], size[TT_MAX_FACTORS];
} tt_region;

tt_region tt_region_of(const tt_type *type, const tt_mesh *mesh, int rank);
int64_t tt_region_count(const tt_region *r);
tt_region tt_region_common(const tt_region *a, const tt_region *b);

// Whether `part` is one run of elements in the dense `whole`; then where it starts.
bool tt_region_is_run(const tt_region *part, const tt_region *whole,
                      int64_t *first_out);

// Combines `part` of the dense box at `from` with the same part at `to`.
typedef struct tt_region_end {
    const tt_region *box;
    void *data;
} tt_region_end;
void tt_region_fold(const tt_region *part, tt_fold fold, tt_region_end to,
                    tt_region_end from);

#endif
