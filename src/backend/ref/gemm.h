// gemm - the product that matmul, convolution and LSTM of ref/ share.
//
// c[i,j] = sum over l of a[i,l] * b[l,j], summed in double, in the order of l.
//
// Functions read the entries of a and b and write those of c. So a and b need not exist
// as matrices: a convolution reads its windows that way (im2col without the matrix of
// windows), and matmul adds bias and activation while writing.

#ifndef TT_BACKEND_REF_GEMM_H
#define TT_BACKEND_REF_GEMM_H

#include "backend/kernel.h"

// Writes entries l0 .. l0 + n of a line (a row of a, a column of b) to
// out[0], out[step], ...
typedef void tt__gemm_read_fn(const void *side, int64_t line, int64_t l0,
                              int64_t n, double *out, int64_t step);

// Receives c[i, j0 .. j0 + n].
typedef void tt__gemm_write_fn(const void *to, int64_t i, int64_t j0, int64_t n,
                               const double *c);

typedef struct tt__gemm {
    int64_t m, n, k;
    const void *a, *b, *to; // given to the functions
    tt__gemm_read_fn *read_a, *read_b;
    tt__gemm_write_fn *write;
} tt__gemm;

enum { TT__GEMM_ROWS = 64, TT__GEMM_COLS = 64, TT__GEMM_DEPTH = 256 };
enum {
    TT__GEMM_SCRATCH =
        (TT__GEMM_ROWS * TT__GEMM_DEPTH + TT__GEMM_COLS * TT__GEMM_DEPTH +
         TT__GEMM_ROWS * TT__GEMM_COLS) *
        (int)sizeof(double)
};

// `scratch` has TT__GEMM_SCRATCH bytes.
void tt__gemm_run(const tt__gemm *g, void *scratch);

// The prepare of kernels that need nothing but that scratch.
tt_status tt__gemm_prepare(tt_backend *backend, tt_site *site,
                           tt_prepared *prepared_out);

// A matrix in memory: entry l of a line is element line * line_stride + l *
// entry_stride.
typedef struct tt__matrix {
    const void *base;
    tt_dtype dtype;
    int64_t line_stride, entry_stride;
} tt__matrix;

tt__gemm_read_fn tt__matrix_read; // side: a tt__matrix

// Rows of sums in memory, `row` elements apart, stored or added to what is there.
typedef struct tt__sum {
    tt_dtype dtype;
    void *base;
    int64_t row;
    bool accumulate;
} tt__sum;

tt__gemm_write_fn tt__sum_write; // to: a tt__sum

#endif
