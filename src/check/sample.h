// sample - an operator's example made into a graph with data.

#ifndef TT_CHECK_SAMPLE_H
#define TT_CHECK_SAMPLE_H

#include "graph/grad.h"

enum { TT_SAMPLE_IN = 12 };

typedef struct tt_case {
    tt_builder b; // holds the graph until it is taken
    const tt_op_def *op;
    const tt_sample *sample;
    int n_in;
    tt_val in[TT_SAMPLE_IN], out[TT_MAX_OUT];
    int n_out;
    double *data[TT_SAMPLE_IN]; // of each input, whole; NULL: absent
    void *params;
    tt_arena *arena;
} tt_case;

// Builds inputs and the node; floats have type `dtype`. With `mesh` and `sig`
// (both or none) the operands are placed along axis 0 and expand is used.
tt_status tt_case_init(tt_case *c, const tt_op_def *op, const tt_sample *sample,
                       tt_dtype dtype, const tt_mesh *mesh, const tt_sig *sig);
void tt_case_fini(tt_case *c);

// Whether the values of input i can be varied (floats that are no constants).
bool tt_case_varies(const tt_case *c, int i);

// Numbers like those of kind `text` ("f", "i<7", ...), the same every time.
void tt_sample_fill(const char *text, uint64_t key, int64_t n, double *out);

#endif
