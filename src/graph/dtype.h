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
    TT_N_DTYPES,
} tt_dtype;

int64_t tt_dtype_bytes(tt_dtype dtype);
const char *tt_dtype_name(tt_dtype dtype); // "f32"
bool tt_dtype_is_float(tt_dtype dtype);
bool tt_dtype_find(const char *name, tt_dtype *dtype_out);

// One element of any type as a double, and back with the type's rounding
// (nearest even; integers saturate). The reference kernels use nothing else.
double tt_dtype_load(tt_dtype dtype, const void *base, int64_t i);
void tt_dtype_store(tt_dtype dtype, void *base, int64_t i, double value);

#endif
