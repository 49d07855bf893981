// target - what lowering may ask about a machine: which kernel will run a site,
// in which layouts, with how much scratch memory. plan/ sees no backend; a live
// backend fills this in.

#ifndef TT_PLAN_TARGET_H
#define TT_PLAN_TARGET_H

#include "base/status.h"
#include "graph/site.h"

typedef struct tt_choice {
    void *kernel;     // the target's handle; the executor hands it back to it
    const char *name; // "cpu.matmul"
    int64_t scratch_bytes;
    bool accumulates; // can add to output 0 instead of writing it
    bool in_place;    // output 0 may be the memory of input 0 (same form)
} tt_choice;

typedef struct tt_target tt_target;
struct tt_target {
    const char *name;
    int64_t memory_bytes; // what a plan may use; 0: unknown
    double peak_flops;    // a second, of products of 16 bits; 0: unknown

    // Picks the kernel for a site. On entry the operands are as they lie in memory
    // and outputs as they would best lie: dense, strided inside a larger tensor,
    // or in a layout > 0 (that of the weight whose gradient it is). All of it is
    // a wish: the kernel may rewrite layouts and strides of any operand to what
    // it wants, and lowering inserts the conversions.
    tt_status (*choose)(tt_target *target, tt_site *site,
                        tt_choice *choice_out);

    // Gives a choice's kernel back. Every kernel goes before the target does.
    void (*release)(tt_target *target, void *kernel);

    // Bytes of an operand in a layout of the target (> 0).
    int64_t (*layout_bytes)(tt_target *target, int32_t layout);

    // A layout for a part of `entries` entries of dim 0, such that parts side by side are
    // the whole in `layout`; 0: there is none.
    int32_t (*layout_part)(tt_target *target, int32_t layout, int64_t entries);

    // A hash that is equal for equal layouts, on every machine.
    uint64_t (*layout_hash)(tt_target *target, int32_t layout);

    bool (*has_dtype)(tt_target *target, tt_dtype dtype);

    // Whether it has a kernel for this fused operator. The pass `fuse` asks.
    bool (*wants)(tt_target *target, const tt_op_def *op);
};

// Bytes from an operand's first element to the end of its last one, or of its layout.
int64_t tt_target_bytes(tt_target *target, const tt_operand *o);

#endif
