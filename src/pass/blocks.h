// blocks - the options of the pass as a struct, and what its two files share.

#ifndef TT_PASS_BLOCKS_H
#define TT_PASS_BLOCKS_H

#include "pass/copy.h"

typedef struct tt_blocks_params {
    const char *axis; // NULL: "data"
    int64_t ranks;    // number of ranks along the axis
    // An axis of which the same is done before; NULL: none.
    const char *first_axis;
    int64_t first_ranks;
    bool
        at_once; // gradients are summed over ranks in the update, not before: for
                 // steps of one micro-batch
} tt_blocks_params;

// A graph being rewritten. "Old" is before, with ids of that graph. Per old value: one
// value for all that the rank has of it, and one for each block. Either may be missing.
typedef struct tt__blocks {
    tt__rewrite r; // kept, split: all blocks; partial: the rank's term
    int axis, ranks, parts;
    bool at_once;
    tt_val *copy;   // [value * parts + j]: block j, or its term
    tt_val *source; // split: a whole value to be cut when somebody asks
    bool *is_term;  // `kept` still has to be summed over ranks
    bool *is_added; // partial: only sums over ranks read it
    bool *is_last;  // read by nobody but one offer
} tt__blocks;

// How an old value lies along the axis.
static inline const tt_place *tt__blocks_place(const tt__blocks *w, int32_t old)
{
    return &w->r.old->value[old].type.place[w->axis];
}

static inline tt_val *tt__blocks_copies(const tt__blocks *w, int32_t old)
{
    return w->copy + (int64_t)old * w->parts;
}

// Gives a new value the placement of an old one, of its block `part` (-1: of all that
// the rank has).
void tt__blocks_put(tt__blocks *w, tt_val v, int32_t old, int part);

// The value as the rank has it, and block j of it; made if need be.
tt_status tt__blocks_whole(tt__blocks *w, int32_t old, tt_val *val_out);
tt_status tt__blocks_copy(tt__blocks *w, int32_t old, int j, tt_val *val_out);

// Sums terms of blocks 0, 1, 2, ... of an old value in pairs, then pairs of pairs, and
// so on. After the last term it holds the sum of all.
typedef struct tt__pile {
    tt_val part[32]; // of 2^level blocks
} tt__pile;
tt_val tt__pile_add(tt__blocks *w, int32_t old, tt__pile *pile, int j,
                    tt_val term);

// A collective along the axis.
tt_status tt__blocks_collective(tt__blocks *w, const tt_node *node);

#endif
