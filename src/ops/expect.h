// expect - what infer functions demand of their operands, with the sentences for
// when they do not get it. More are in rows.h.

#ifndef TT_OPS_EXPECT_H
#define TT_OPS_EXPECT_H

#include "ops/shape/rows.h"

// Input i is of type `dtype`; `what` names it.
tt_status tt__expect_dtype(const tt_op_io *io, const char *op, int i,
                           tt_dtype dtype, const char *what);

// Input i has a float type that weights may have beside activations of `dtype`:
// that type, or the one of statistics.
tt_status tt__expect_weight(const tt_op_io *io, const char *op, int i,
                            tt_dtype dtype, const char *what);

// Input i has one dimension, of extent n.
tt_status tt__expect_vector(const tt_op_io *io, const char *op, int i,
                            int64_t n, const char *what);

// Input i has the extents of `shape`.
tt_status tt__expect_dims(const tt_op_io *io, const char *op, int i,
                          const tt_shape *shape, const char *what);

// Checks an output's shape (a factor twice, say) in the operator's name.
tt_status tt__expect_legal(const char *op, const tt_shape *shape);

#endif
