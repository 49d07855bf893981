// parts - what a rank holds of a value, and how it lies in the whole. Internal.

#ifndef TT_STATE_PARTS_H
#define TT_STATE_PARTS_H

#include "graph/graph.h"

typedef struct tt__rank_part {
    tt_local local;
    int64_t count; // elements
    int64_t
        run; // that lie behind each other in the whole, from every run-th on
} tt__rank_part;

tt__rank_part tt__rank_part_of(const tt_graph *g, tt_val v, int32_t rank);
bool tt__rank_part_equal(const tt__rank_part *a, const tt__rank_part *b);

// Elements of `size` bytes from a part to its places in the whole, and back.
void tt__rank_part_spread(const tt__rank_part *p, int64_t size, const char *in,
                          char *whole);
void tt__rank_part_cut(const tt__rank_part *p, int64_t size, const char *whole,
                       char *out);

// The rank that speaks for a part: among those that together hold a whole, each of
// them has the same; those that hold the same part differ.
int32_t tt__rank_part_group(const tt_graph *g, tt_val v, int32_t rank);

#endif
