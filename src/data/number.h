// number - arrays of numbers as files hold them: any width, any byte order, at any
// address.

#ifndef TT_DATA_NUMBER_H
#define TT_DATA_NUMBER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_number {
    char kind;   // 'i' signed, 'u' unsigned, 'f' floating point
    int bytes;   // 1, 2, 4, 8; of 'f': 2, 4, 8
    bool is_big; // the most significant byte is first
} tt_number;

static inline bool tt_number_is_whole(tt_number type)
{
    return type.kind != 'f';
}

// Elements [0, n) at `from`.
void tt_number_to_f32(tt_number type, const void *from, int64_t n, float *out);

// Whole numbers only. One that has no place in an int32 is TT_ERR_ARG with its
// index in *bad_out.
tt_status tt_number_to_i32(tt_number type, const void *from, int64_t n,
                           int32_t *out, int64_t *bad_out);

// Little-endian words at any address.
uint32_t tt_u32_at(const void *from);
uint64_t tt_u64_at(const void *from);

#endif
