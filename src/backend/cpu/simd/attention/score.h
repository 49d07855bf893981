// score - how far results are from what they should be: rows whose largest entry
// is the label's, sums of squared differences.

#ifndef TT_BACKEND_CPU_SIMD_ATTENTION_SCORE_H
#define TT_BACKEND_CPU_SIMD_ATTENTION_SCORE_H

#include "backend/cpu/simd/type.h"

#include <stdint.h>

// is_hit(r) is 1 when the first of the largest entries of row r stands at
// labels(r), else 0; a label outside the row never hits.
typedef struct tt_simd_hits_args {
    tt_simd_type type;
    int64_t rows, cols;
    const void *x;
    const int32_t *labels;
    uint8_t *is_hit;
} tt_simd_hits_args;

// Columns [first, first + cols) of longer rows whose largest entries are tops: marks(r)
// is 2 when an entry before the label's is as large as that, else 1 when the label's
// is, else 0. Labels count from the first column of the whole row.
typedef struct tt_simd_marks_args {
    tt_simd_type type; // of x
    int64_t rows, cols, first;
    const void *x;
    const int32_t *labels;
    const float *tops;
    float *marks;
} tt_simd_marks_args;

// sums(r) = weight(r) sum over c of (x - target)^2; d_x = 2 scale weight(r)
// (x - target).
typedef struct tt_simd_squares_args {
    tt_simd_type type; // of x, target and d_x
    int64_t rows, cols;
    const void *x, *target;
    const float *weight; // [rows], or null for 1
    double *sums;        // [rows]
    float scale;
    void *d_x; // may be x or target
} tt_simd_squares_args;

typedef struct tt_simd_score {
    void (*hits)(const tt_simd_hits_args *args);
    void (*marks)(const tt_simd_marks_args *args);
    void (*squares)(const tt_simd_squares_args *args);
    void (*squares_grad)(const tt_simd_squares_args *args);
} tt_simd_score;

#endif
