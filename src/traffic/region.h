// region - boxes of a value's elements, and moving them between dense parts.
//
// A rank's part of a value is a box in the space of its factors: an interval of each
// factor. Where the sequence is split in zigzag (each rank gets one block from the
// front and one from the back, so that causal attention is equal work for all), it is
// two boxes. What one rank must send to another is the intersection of their boxes.

#ifndef TT_TRAFFIC_REGION_H
#define TT_TRAFFIC_REGION_H

#include "comm/fold.h"
#include "graph/place.h"

typedef struct tt_region {
    int32_t n; // factors
    int64_t origin[TT_MAX_FACTORS], size[TT_MAX_FACTORS];
} tt_region;

// A rank's part: its boxes, and for each the box that the whole dense part would be if
// it continued like this one. That tells where the box's elements lie in memory.
typedef struct tt_part {
    int32_t n; // 1 or 2
    tt_region box[2], home[2];
} tt_part;

tt_part tt_part_of(const tt_type *type, const tt_mesh *mesh, int rank);
int64_t tt_part_count(const tt_part *part);

// What two parts have in common, box by box.
typedef struct tt_common {
    int32_t n;
    int64_t count;      // elements of all
    tt_region box[4];   // none is empty
    int32_t a[4], b[4]; // of which boxes
} tt_common;
tt_common tt_part_common(const tt_part *a, const tt_part *b);

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
// Where in memory `part` of the dense `whole` lies: its first element, and the strides of a
// box's factors, in elements. For memory that the host cannot address.
int64_t tt_region_first(const tt_region *part, const tt_region *whole);
void tt_region_strides(const tt_region *box, int64_t *stride_out);

#endif
