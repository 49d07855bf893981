// comm_def - what the definitions of communication operators share.

#ifndef TT_OPS_COMM_COMM_DEF_H
#define TT_OPS_COMM_COMM_DEF_H

#include "ops/comm/comm.h"

// Infer functions: the output is what the input is, which has params' factor.
tt_op_infer_fn tt__infer_comm, tt__infer_comm_factor;

// Whether the input has this factor.
tt_status tt__check_comm_factor(const tt_op_io *io, const char *factor);

// The gradient of any change of placement: brings dy to where the gradient of x
// belongs. That is x's placement, except that every term of a partial x has the
// whole gradient. A dy without placement is taken to be where y's gradient
// belongs; a partial dy (each rank computed a share) is summed on the way.
tt_op_grad_fn tt__comm_grad;

// Options that several have. No bounds are given where any number goes.
#define TT__COMM_NUMBER(option, field, value, text)                            \
    .name = (option), .fallback = (value), .doc = (text), .type = TT_OPT_I64,  \
    .offset = offsetof(tt_comm_params, field)
#define TT__COMM_FACTOR(option, field, text)                                   \
    .name = (option), .doc = (text), .type = TT_OPT_STR,                       \
    .offset = offsetof(tt_comm_params, field)
#define TT__COMM_AXIS                                                          \
    TT__COMM_NUMBER("axis", axis, "0", "mesh axis"), .max = TT_MAX_AXES - 1

// The fields of a def that are alike for all.
#define TT__COMM_OP(op) .name = #op, .params_bytes = sizeof(tt_comm_params)

#endif
