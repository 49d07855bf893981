// dtype - element types.

#ifndef TT_GRAPH_DTYPE_H
#define TT_GRAPH_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum tt_dtype {
    TT_F64,
    TT_F32,
    TT_BF16,
    TT_F16,
    TT_I64,
    TT_I32,
    TT_U8,
    TT_E4M3, // 8 bits that only fp8_pack makes and only matmul_fp8 reads: floats
    TT_E5M2, // with 4 and 5 bits of exponent, up to 448 and 57344
    TT_N_DTYPES,
} tt_dtype;

int64_t tt_dtype_bytes(tt_dtype dtype);
const char *tt_dtype_name(tt_dtype dtype); // "f32"
bool tt_dtype_is_float(tt_dtype dtype);    // of 16 bits or more
double tt_dtype_largest(tt_dtype dtype);   // of the floats of 8 bits
bool tt_dtype_find(const char *name, tt_dtype *dtype_out);

// One element of any type as a double, and back with the type's rounding
// (nearest even; integers saturate, and finite numbers in 8 bits; there infinity
// becomes NaN). The reference kernels use nothing else.
double tt_dtype_load(tt_dtype dtype, const void *base, int64_t i);
void tt_dtype_store(tt_dtype dtype, void *base, int64_t i, double value);

#endif
