// comm_def - what the definitions of communication operators share.

#ifndef TT_OPS_COMM_DEF_H
#define TT_OPS_COMM_DEF_H

#include "ops/comm.h"

// The output is what the input is; with `factor`: which must have that factor.
tt_status tt__infer_comm(const tt_op_def *op, tt_op_io *io);
tt_status tt__infer_comm_factor(const tt_op_def *op, tt_op_io *io,
                                const char *factor);

// The gradient of any change of placement: brings dy to where the gradient of x
// belongs. That is x's placement, except that every term of a partial x has the
// whole gradient. A dy without placement is taken to be where y's gradient
// belongs; a partial dy (each rank computed a share) is summed on the way.
tt_op_grad_fn tt__comm_grad;

#endif
