// dnnl_inner - what the two files that talk to oneDNN share; nobody else includes
// it. dnnl_create.c has what differs between versions 2 and 3 of the library: how
// operations are described.

#ifndef TT_BACKEND_CPU_DNNL_DNNL_INNER_H
#define TT_BACKEND_CPU_DNNL_DNNL_INNER_H

#include "backend/cpu/dnnl/dnnl.h"
#include "backend/cpu/dnnl/dnnl_wide.h"

#include <oneapi/dnnl/dnnl.h>

struct tt__dnnl {
    int n_threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_memory_desc_t *layout; // number i + 1
    int32_t n_layouts, capacity;
};

struct tt__prim {
    tt__dnnl *dnnl;
    dnnl_primitive_t primitive;
    const char *name;
    bool is_serial, adds;
    int n_slots, n_args;
    int arg_of[TT__MAX_SLOTS]; // -1: absent
    int32_t layout[TT__MAX_SLOTS];
    dnnl_exec_arg_t arg[TT__MAX_SLOTS + 1]; // the last: scratch
    int64_t scratch_bytes;
    // Slots of bf16 that the library gets as floats (dnnl_wide.h). The floats lie in
    // scratch memory after the library's own.
    int64_t own_scratch;
    tt__wide wide[TT__MAX_SLOTS];
    bool is_written[TT__MAX_SLOTS];
};

tt_status tt__dnnl_fail(dnnl_status_t status, const char *what);

// What the library is told; of floats where the tensor is widened.
dnnl_memory_desc_t tt__dnnl_md(const tt__dnnl *dnnl, const tt__dnnl_tensor *t);

// The number of a format: 0 when it is dense.
tt_status tt__dnnl_intern(tt__dnnl *dnnl, const dnnl_memory_desc_t *md,
                          int32_t *layout_out);

// What a primitive's tensors are, in the order of its slots.
typedef struct tt__slot {
    int arg;            // DNNL_ARG_...; 0: absent
    dnnl_query_t query; // where the descriptor finds its format
    int index;
} tt__slot;

// A primitive to be made: its slots, and the tensors that they were described with
// (NULL: one of the library's own).
typedef struct tt__slots {
    const tt__slot *slot;
    const tt__dnnl_tensor *tensor[TT__MAX_SLOTS];
    int n;
} tt__slots;

// Makes the primitive of a descriptor, and its argument array.
tt_status tt__prim_make(tt__dnnl *dnnl, const_dnnl_primitive_desc_t pd,
                        const tt__slots *slots, tt__prim **prim_out);

#endif
