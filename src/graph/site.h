// site - a node bound to one rank: the local operands a kernel works on.

#ifndef TT_GRAPH_SITE_H
#define TT_GRAPH_SITE_H

#include "graph/op.h"
#include "graph/place.h"

// How one operand lies in memory. Layout 0 is plain: element (i0, i1, ...) at
// sum(i[d] * stride[d]) elements. A positive layout belongs to the target (a
// blocked format of a library, say) and only its kernels can read it.
typedef struct tt_operand {
    tt_dtype dtype; // TT_N_DTYPES: absent optional input
    tt_local local; // local extents, and where they are in the whole
    int64_t stride[TT_MAX_DIMS];
    int32_t layout;
} tt_operand;

typedef struct tt_site {
    const tt_op_def *op;
    const void *params;
    const char *origin;
    int n_in, n_out;
    tt_operand *in, *out;
} tt_site;

static inline bool tt_site_has(const tt_site *site, int i)
{
    return i < site->n_in && site->in[i].dtype != TT_N_DTYPES;
}
static inline int64_t tt_operand_dim(const tt_operand *o, int d)
{
    return tt_shape_dim(&o->local.shape, d);
}
static inline int64_t tt_operand_count(const tt_operand *o)
{
    return tt_shape_count(&o->local.shape);
}

// Plain, row-major, without gaps.
bool tt_operand_is_dense(const tt_operand *o);
void tt_operand_set_dense(tt_operand *o);
// Same layout, and same strides when plain.
bool tt_operand_same_form(const tt_operand *a, const tt_operand *b);

#endif
