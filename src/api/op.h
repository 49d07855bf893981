// op - internal to api/: an operator from outside, dressed as one of the tree's.

#ifndef TT_API_OP_H
#define TT_API_OP_H

#include "api/convert.h"
#include "backend/kernel.h"

typedef struct tt__api_op {
    tt_op_def def; // first: the registry holds this
    tt_kernel_def kernel;
    tt_arena *arena; // where all of it lives, for good
    tutti_operator outside;
} tt__api_op;

static inline const tt__api_op *tt__api_op_of(const tt_op_def *def)
{
    return (const tt__api_op *)def; // its first member
}

// The only kernel: converts floats where the callback wants others.
tt_kernel_prepare_fn tt__api_kernel_prepare;
tt_kernel_run_fn tt__api_kernel_run;
tt_kernel_release_fn tt__api_kernel_release;

#endif
