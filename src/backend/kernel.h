// kernel - how an operator is computed on one kind of device.
//
// A kernel def belongs to one operator. Its functions are called in this order:
//
//   can       at lowering: whether it takes this site (types, shapes, layouts)
//   prepare   at lowering, once: may ask for layouts and scratch memory, and makes the
//             state, a library's primitive for instance
//   run       in every step: neither allocates nor looks anything up
//   release   when the plan is freed
//
// The first def in the backend's list that can do a site gets it; ref can do
// everything. A prepare that answers TT_ERR_UNSUPPORTED passes the site on to the
// next def: some libraries know only after trying. See choose.c.

#ifndef TT_BACKEND_KERNEL_H
#define TT_BACKEND_KERNEL_H

#include "base/status.h"
#include "graph/site.h"

typedef struct tt_backend tt_backend;
typedef struct tt_kernel_def tt_kernel_def;

// What prepare decides besides the operands' forms (which it changes in the site).
typedef struct tt_prepared {
    void *state; // from tt_alloc; given to run; freed by release or tt_free
    int64_t scratch_bytes;
    bool accumulates, in_place;
} tt_prepared;

// Addresses of the operands, in the forms that the site says. NULL: absent, or an input
// of which only the shape is read. The new version of a state lies where the old one
// lies. So a kernel with such outputs (optimisers, batch norm's statistics) must
// tolerate out[j] == in[i] for that pair.
typedef struct tt_args {
    const void *const *in;
    void *const *out;
    void *scratch;   // 64-byte aligned
    bool accumulate; // add to output 0
} tt_args;

typedef bool tt_kernel_can_fn(const tt_backend *backend, const tt_site *site);
typedef tt_status tt_kernel_prepare_fn(tt_backend *backend, tt_site *site,
                                       tt_prepared *prepared_out);
typedef tt_status tt_kernel_run_fn(void *state, const tt_site *site,
                                   const tt_args *args);
typedef void tt_kernel_release_fn(void *state);

struct tt_kernel_def {
    const char *name; // "cpu.matmul"
    const tt_op_def *op;
    // Bit i: operand i may have gaps (plain); others come dense. Bit 31 speaks for
    // all operands from the 32nd on.
    uint32_t strided_in, strided_out;
    bool accumulates;              // every site; else prepare may say so
    bool in_place;                 // every site; else prepare may say so
    tt_kernel_can_fn *can;         // NULL: every site with plain operands
    tt_kernel_prepare_fn *prepare; // NULL: nothing to prepare
    tt_kernel_run_fn *run;
    // For a copy that overlaps with later steps: run() starts it, and the steps after
    // finish() wait for its end. NULL: all steps after run() do.
    tt_kernel_run_fn *finish;
    tt_kernel_release_fn *release; // NULL: tt_free(state)
};

// A file has its defs in one array, tt__<backend>_<file>_kernels, which ends with
// {0}. Nearly every kernel is named after its backend and its operator:
// {TT_KERNEL(cpu, gelu), .run = run_gelu} is "cpu.gelu" of tt_op_gelu.
#define TT_KERNEL(backend, operator)                                           \
    .name = #backend "." #operator, .op = & tt_op_##operator

// A run function that is one expression of state, site and args.
#define TT_KERNEL_RUN(function, expression)                                    \
    static tt_status function(void *state, const tt_site *site,                \
                              const tt_args *args)                             \
    {                                                                          \
        (void)state;                                                           \
        return (expression);                                                   \
    }

// All operands may have gaps.
#define TT_STRIDED .strided_in = ~0u, .strided_out = ~0u

#endif
