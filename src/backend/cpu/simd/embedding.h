// embedding - rows of a table by number, and the gradient of the table.

#ifndef TT_BACKEND_CPU_SIMD_EMBEDDING_H
#define TT_BACKEND_CPU_SIMD_EMBEDDING_H

#include "backend/cpu/simd/type.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_simd_embedding_args {
    tt_simd_type table_type; // of table and positions
    tt_simd_type type;       // of y and d_y
    int64_t n_ids, vocab, cols;
    const int32_t *ids;
    const void *table;     // [vocab, cols]
    const void *positions; // [at least first_position + length, cols], or null
    int64_t length; // id i stands at position first_position + i % length
    int64_t first_position;
    void *y;          // [n_ids, cols]
    const void *d_y;  // backward
    float *d_table;   // [vocab, cols]
    bool accumulates; // d_table += instead of d_table =
} tt_simd_embedding_args;

// An id outside the table gives a row of NaN and no gradient.
typedef struct tt_simd_embedding {
    void (*forward)(const tt_simd_embedding_args *args);
    // Rows are added in the order of the ids. (The gradient of the positions
    // is reduce.column_sum over samples.)
    void (*backward)(const tt_simd_embedding_args *args);
} tt_simd_embedding;

#endif
