// weights_stack - matrices of experts that files have one by one, as the one tensor
// that a model has: "experts.0.w1.weight", "experts.1.w1.weight", .. become
// "experts.w1.weight" with one more dimension in front. Internal.

#ifndef TT_WEIGHTS_WEIGHTS_STACK_H
#define TT_WEIGHTS_WEIGHTS_STACK_H

#include "base/arena.h"
#include "store/safetensors.h"

typedef struct tt__stacks {
    int64_t n;
    void **memory; // of tt_alloc_aligned, in the arena
} tt__stacks;

// Replaces them among the *n tensors. An expert that is missing, or of another shape or
// type than the first, is an error.
tt_status tt__weights_stack(const tt_safetensor **tensor, int64_t *n,
                            tt_arena *arena, tt__stacks *stacks);

// The name of the stack that a tensor of this name becomes a part of, or NULL.
const char *tt__stack_name(const char *name, tt_arena *arena);
void tt__stacks_free(tt__stacks *stacks);

#endif
