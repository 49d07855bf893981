// simd_check - arrays of either storage type, and the comparison of a kernel
// with a naive double loop on every instruction set this CPU has.

#ifndef TT_TESTS_BACKEND_SIMD_CHECK_H
#define TT_TESTS_BACKEND_SIMD_CHECK_H

#include "backend/cpu/simd.h"

#include <stdint.h>

typedef struct buf {
    tt_simd_type type;
    int64_t n;
    void *data; // 64-byte aligned, freed by simd_each
} buf;

// Random values in [-size, size]; what is read back is what is stored.
buf buf_random(tt_simd_type type, int64_t n, double size);
buf buf_filled(tt_simd_type type, int64_t n, double value);
double buf_get(const buf *b, int64_t i);
void buf_set(const buf *b, int64_t i, double value);
buf buf_copy(const buf *b);

// The same bits; fails the test otherwise.
void buf_check_same(const buf *a, const buf *b, const char *what);

// Every element within tol * max(1, |want|), tol 1e-5 for fp32 and half a unit
// in the last place, and a bit, for bf16.
void buf_check(const buf *got, const double *want, const char *what);

// With `times` the tolerance for bf16: intermediate results are rounded too.
void buf_check_loose(const buf *got, const double *want, double times,
                     const char *what);

// n zeros, freed by simd_each.
double *doubles(int64_t n);

typedef void simd_case_fn(const tt_simd *simd, tt_simd_type type);

// Runs the case for every table and both types.
void simd_each(simd_case_fn *run);

// Sets the number of OpenMP threads.
void use_threads(int n);

#endif
