// elementwise - sums and products with broadcasting, casts. Bound by memory.

#ifndef TT_BACKEND_CPU_SIMD_ELEMENTWISE_H
#define TT_BACKEND_CPU_SIMD_ELEMENTWISE_H

#include "backend/cpu/simd/type.h"

#include <stdint.h>

typedef enum tt_simd_binary_op {
    TT_SIMD_ADD,
    TT_SIMD_SUB,
    TT_SIMD_MUL,
    TT_SIMD_DIV
} tt_simd_binary_op;

// y(i,j) = a(i,j) op b(i,j), y dense. Element (i,j) of an operand is
// data[i*row + j*col]: a col of 1 or 0, any row, so that a vector along either
// dimension, or a single number, is broadcast. y may be an operand with the
// strides of y.
typedef struct tt_simd_operand {
    const void *data;
    tt_simd_type type;
    int64_t row, col;
} tt_simd_operand;

typedef struct tt_simd_binary_args {
    tt_simd_binary_op op;
    tt_simd_type type; // of y
    int64_t rows, cols;
    tt_simd_operand a, b;
    void *y; // [rows, cols]
} tt_simd_binary_args;

// y = alpha x + beta y; with beta 0, y is not read.
typedef struct tt_simd_axpby_args {
    tt_simd_type type;
    int64_t n;
    float alpha, beta;
    const void *x;
    void *y;
} tt_simd_axpby_args;

typedef struct tt_simd_elementwise {
    void (*binary)(const tt_simd_binary_args *args);
    void (*axpby)(const tt_simd_axpby_args *args);
    void (*fill)(tt_simd_type type, void *y, int64_t n, float value);
    // Between types (nearest even), or a copy where they are the same.
    void (*cast)(tt_simd_type from, const void *x, tt_simd_type to, void *y,
                 int64_t n);
} tt_simd_elementwise;

#endif
