// wrap - what the kernels around the vectorised functions share: types of operands
// as these functions name them, and conditions on sites.

#ifndef TT_BACKEND_CPU_WRAP_H
#define TT_BACKEND_CPU_WRAP_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/simd.h"

static inline bool tt__is_simd(tt_dtype dtype)
{
    return dtype == TT_F32 || dtype == TT_BF16;
}
static inline tt_simd_type tt__simd_type(tt_dtype dtype)
{
    return dtype == TT_BF16 ? TT_SIMD_BF16 : TT_SIMD_F32;
}

// Whether no operand that is read or written has a layout of the library.
bool tt__site_is_plain(const tt_site *site);

// Whether the operands of a plain site have these types, a character each: x for
// f32 or bf16, t for the type of input 0 (f32 or bf16), f for f32, i for i32, I
// for i64, u for u8. The last character stands for all operands from there on;
// absent inputs have any type.
bool tt__site_has_types(const tt_site *site, const char *in, const char *out);

// Input 0 as a matrix: its last dimension is the columns.
int64_t tt__site_rows(const tt_site *site);
int64_t tt__site_cols(const tt_site *site);

// Whether entries i of dim d have the global indices first + i.
bool tt__is_run(const tt_local *local, int d, int64_t *first_out);

// A small vector as floats: itself, or converted into `room`. NULL stays NULL.
const float *tt__as_floats(tt_dtype dtype, const void *data, int64_t n,
                           float *room);

// A number among the inputs.
double tt__number(const tt_site *site, const tt_args *args, int i);

// Scratch memory in pieces of 64 bytes.
static inline int64_t tt__round64(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

#endif
