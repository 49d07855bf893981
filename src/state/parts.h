// parts - the part of a value that a rank holds, and where it lies in the whole.
// Internal.

#ifndef TT_STATE_PARTS_H
#define TT_STATE_PARTS_H

#include "graph/graph.h"

typedef struct tt__rank_part {
    tt_local local;
    int64_t count; // elements; 0 on a rank that holds nothing (local.is_absent)
    int64_t run;   // elements that are also neighbours in the whole
} tt__rank_part;

tt__rank_part tt__rank_part_of(const tt_graph *g, tt_val v, int32_t rank);
bool tt__rank_part_equal(const tt__rank_part *a, const tt__rank_part *b);

// Copies elements of `size` bytes from a part to their places in the whole
// (spread), or from the whole into a part (cut).
void tt__rank_part_spread(const tt__rank_part *p, int64_t size, const char *in,
                          char *whole);
void tt__rank_part_cut(const tt__rank_part *p, int64_t size, const char *whole,
                       char *out);

// The rank that stands for one copy of the value. It is the same for all ranks that
// hold a whole together, and different for ranks that hold the same part. A rank that
// holds nothing, as the value lies at other stages, has none: TT__RANK_ABSENT.
enum { TT__RANK_ABSENT = -1 };
int32_t tt__rank_part_group(const tt_graph *g, tt_val v, int32_t rank);

// The copy that stands for the value where one is enough: that of the lowest rank that
// holds a part.
int32_t tt__rank_part_first(const tt_graph *g, tt_val v);

#endif
