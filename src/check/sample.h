// sample - an operator's sample made into a graph with data.
//
// A sample is a line of text per input, as in "f batch:2 seq:5": a letter for the
// type, a mark for the range of numbers, the shape. From it a law gets inputs, the
// operator's node and numbers that are the same every time.
//
//   f   float of the law's type          f!   distinct and not near zero (kinks)
//   m   float, but at least fp32         f+   positive
//   b   bf16                             f=x  the constant x
//   q r fp8: E4M3, E5M2                  i<7  below 7
//   i I u  int32, int64, uint8           -    absent
//   c3  codes of 3 replicas, of what the next input is like

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

// Builds the inputs and the node; floats have type `dtype`. With `mesh` and `sig`
// (both or neither) the operands are placed along axis 0, and the signature's expand
// is used.
tt_status tt_case_init(tt_case *c, const tt_op_def *op, const tt_sample *sample,
                       tt_dtype dtype, const tt_mesh *mesh, const tt_sig *sig);
void tt_case_fini(tt_case *c);

// Whether input i can be varied for a finite difference: a float that is not a
// constant.
bool tt_case_varies(const tt_case *c, int i);

// Numbers of the kind that `text` names ("f", "i<7", ...). The same key gives the same
// numbers.
void tt_sample_fill(const char *text, uint64_t key, int64_t n, double *out);

#endif
