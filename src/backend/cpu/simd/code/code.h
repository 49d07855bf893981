// code - codes of gradients (ops/codec/codes.h, sparse.h, entropy.h), vectorised.
//
// Unlike the other families these have the same bits with every instruction set, and as
// the reference: replicas on different machines exchange codes. So the files are compiled
// without fused multiply-add, sums have the order that codes.h gives them, and what is not
// a plain loop works on 16 elements at a time everywhere.
//
//   encode   e = x + residual (x alone without one) -> body; left = e - what it stands for
//   add      y = what a body stands for (is_first), or y + that

#ifndef TT_BACKEND_CPU_SIMD_CODE_H
#define TT_BACKEND_CPU_SIMD_CODE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_simd_code_args {
    int64_t n, block;
    uint64_t key;
    float threshold, sparsity, shrink;
    int levels;
    const float *x, *residual; // NULL: none
    float *left;               // may be `residual`
    unsigned char *body;
} tt_simd_code_args;

typedef struct tt_simd_code_add {
    int64_t n, block, bytes;
    int levels;
    const unsigned char *body;
    float *y;
    bool is_first;
} tt_simd_code_add;

// Votes of all replicas; bodies are `stride` bytes apart.
typedef struct tt_simd_code_vote {
    int64_t n, block, peers, stride;
    const unsigned char *body;
    float *y;
} tt_simd_code_vote;

// The k largest of e by the bits of their absolute values, among those of `least` or more.
typedef struct tt_simd_pick {
    int64_t n, k;
    const float *x, *residual; // as above
    float *left;               // gets e, with 0 where it is not finite
    uint32_t least;
    uint32_t *place; // room for n; the places that were picked, ascending
    float *value;    // room for n; e there
} tt_simd_pick;

typedef struct tt_simd_code {
    uint32_t (*hash)(const void *data, int64_t bytes);
    void (*int8)(const tt_simd_code_args *a);
    void (*onebit)(const tt_simd_code_args *a);
    void (*sign)(const tt_simd_code_args *a);
    void (*twobit)(const tt_simd_code_args *a);
    void (*ternary)(const tt_simd_code_args *a);
    void (*natural)(const tt_simd_code_args *a);
    void (*int8_add)(const tt_simd_code_add *a);
    void (*onebit_add)(const tt_simd_code_add *a);
    void (*twobit_add)(const tt_simd_code_add *a);
    void (*ternary_add)(const tt_simd_code_add *a);
    void (*natural_add)(const tt_simd_code_add *a);
    void (*vote)(const tt_simd_code_vote *a);
} tt_simd_code;

typedef struct tt_simd_code_pick {
    int64_t (*pick)(const tt_simd_pick *p); // how many
    // The sum of squares of e, which also goes to `left` when there is one.
    double (*squares)(const float *x, const float *residual, float *left,
                      int64_t n);
    // u = momentum u + x factor; v = v + u.
    void (*gather)(const float *x, const float *const in[2],
                   float *const out[2], int64_t n, const float by[2]);
} tt_simd_code_pick;

// Codecs whose codes have a length that depends on the numbers. encode returns the bytes of
// the body; add returns false where no encoder writes such a body.
typedef struct tt_simd_code_entropy {
    int64_t (*threelc)(const tt_simd_code_args *a);
    bool (*threelc_add)(const tt_simd_code_add *a);
} tt_simd_code_entropy;

// The same for qsgd.
typedef struct tt_simd_code_qsgd {
    int64_t (*encode)(const tt_simd_code_args *a);
    bool (*add)(const tt_simd_code_add *a);
} tt_simd_code_qsgd;

// Numbers in 16 bits: bf16, or fp16.
typedef struct tt_simd_narrow_args {
    int64_t n;
    bool is_half; // fp16
    float scale, limit;
    const float *x, *residual; // NULL: none
    float *left;               // may be `residual`
    uint16_t *code;
} tt_simd_narrow_args;

typedef struct tt_simd_code_narrow {
    void (*narrow)(const tt_simd_narrow_args *a);
    void (*widen)(bool is_half, const uint16_t *code, float back, float *y,
                  int64_t n);
} tt_simd_code_narrow;

#endif
