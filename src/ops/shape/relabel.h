// relabel - other names for the same elements.

#ifndef TT_OPS_SHAPE_RELABEL_H
#define TT_OPS_SHAPE_RELABEL_H

#include "graph/build.h"

typedef struct tt_relabel_params {
    int64_t dim;
    const char *name;
} tt_relabel_params;

// Dim `dim` of x becomes one factor called `name`.
tt_val tt_relabel(tt_builder *b, tt_val x, int dim, const char *name);

// x with the names and factors of `like`, which has the same extents.
tt_val tt_match(tt_builder *b, tt_val x, tt_val like);

#endif
