// op - internal to api/: a user's operator that looks like one of the tree's.

#ifndef TT_API_OP_H
#define TT_API_OP_H

#include "api/convert.h"
#include "backend/kernel.h"

typedef struct tt__api_op {
    tt_op_def def; // must be first: the registry holds a pointer to it
    tt_kernel_def kernel;
    tt_arena *arena; // owns all of it, and is never freed
    tutti_operator outside;
} tt__api_op;

static inline const tt__api_op *tt__api_op_of(const tt_op_def *def)
{
    return (const tt__api_op *)def; // def is its first member
}

// The operator's only kernel. It converts floats where the callback wants another
// type.
tt_kernel_prepare_fn tt__api_kernel_prepare;
tt_kernel_run_fn tt__api_kernel_run;
tt_kernel_release_fn tt__api_kernel_release;

#endif
