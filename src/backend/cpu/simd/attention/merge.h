// merge - joins attention over two sets of keys: each gave its result and the
// logarithm of its sum of exponentials.
//
//   lse = log(exp lse1 + exp lse2)   o = exp(lse1 - lse) o1 + exp(lse2 - lse) o2
//
// A row that saw no key in either has o = 0 and lse = -inf.

#ifndef TT_BACKEND_CPU_SIMD_ATTENTION_MERGE_H
#define TT_BACKEND_CPU_SIMD_ATTENTION_MERGE_H

#include "backend/cpu/simd/type.h"

#include <stdint.h>

typedef struct tt_simd_merge_args {
    tt_simd_type type; // of o1, o2, o
    int64_t n_batch, length, heads, head_dim;
    const void *o1, *o2;      // [n_batch, length, heads, head_dim]
    const float *lse1, *lse2; // [n_batch, heads, length]
    void *o;                  // may be o1 or o2
    float *lse;
} tt_simd_merge_args;

typedef struct tt_simd_merge {
    void (*run)(const tt_simd_merge_args *args);
} tt_simd_merge;

#endif
