// move - the operators that only move elements, given a function that copies one
// strided array to another, and that function's context. Backends differ in the copy
// alone.

#ifndef TT_BACKEND_REF_MOVE_H
#define TT_BACKEND_REF_MOVE_H

#include "backend/kernel.h"
#include "backend/ref/copy.h"

typedef tt_status tt__move_fn(const tt_site *site, const tt_args *args,
                              tt__copy_fn *copy, void *ctx);

tt__move_fn tt__move_reorder; // also reshape
tt__move_fn tt__move_transpose, tt__move_split, tt__move_join;
tt__move_fn tt__move_slice, tt__move_slice_grad, tt__move_concat;
tt__move_fn tt__move_stripe, tt__move_weave;

#endif
