// experts - rows of tokens to the slots of experts and back; which experts a token
// goes to.
//
// A pair is one choice of one token: pair i is choice i % choices of token i / choices.

#ifndef TT_BACKEND_CPU_SIMD_EXPERTS_H
#define TT_BACKEND_CPU_SIMD_EXPERTS_H

#include "backend/cpu/simd/type.h"

#include <stdint.h>

typedef struct tt_simd_experts_args {
    tt_simd_type type; // of x, z and y
    int64_t tokens, choices, cols;
    int64_t rows;       // of z
    const int32_t *row; // of each pair; -1: none
    const float *gate;  // of each pair; null: 1
    const void *x;      // [tokens, cols]
    const void *z;      // [rows, cols]
    void *y;            // dispatch: [rows, cols]; combine: [tokens, cols]
    float *dgate;       // [tokens, choices]
    int32_t *pair;      // dispatch: room for one number per row
} tt_simd_experts_args;

typedef struct tt_simd_route_args {
    tt_simd_type type;               // of logits and d_logits
    int64_t groups, tokens, experts; // tokens of a group
    int64_t choices, slots;
    const void *logits; // [groups, tokens, experts]
    float *gate; // [groups, tokens, choices]; backward: its gradient, or null
    int32_t *place;  // the same; backward: read
    double *balance; // of each group
    float d_balance; // of each, backward
    void *d_logits;
    // Room for every group, route_scratch_bytes each.
    char *scratch;
} tt_simd_route_args;

typedef struct tt_simd_experts {
    // y(row) = sum of gate x(token) over the pairs with that row, in their order.
    void (*dispatch)(const tt_simd_experts_args *args);
    // y(token) = sum of gate z(row) over its pairs that have one.
    void (*combine)(const tt_simd_experts_args *args);
    // dgate(pair) = x(token) . z(row), or 0.
    void (*gate_grad)(const tt_simd_experts_args *args);
    // See ops/nn/route.c.
    void (*route)(const tt_simd_route_args *args);
    void (*route_grad)(const tt_simd_route_args *args);
    int64_t (*route_scratch_bytes)(int64_t experts); // per group
} tt_simd_experts;

#endif
