// fold - combining arrays element by element: dst = dst op src, in this order.

#ifndef TT_COMM_FOLD_H
#define TT_COMM_FOLD_H

#include <stdint.h>

typedef enum tt_num {
    TT_NUM_F64,
    TT_NUM_F32,
    TT_NUM_BF16,
    TT_NUM_F16,
    TT_NUM_I64,
    TT_NUM_I32,
    TT_NUM_U8,
    TT_N_NUMS,
} tt_num;
int64_t tt_num_bytes(tt_num type);
const char *tt_num_name(tt_num type);

typedef enum tt_fold_op { TT_FOLD_COPY, TT_FOLD_SUM, TT_FOLD_MAX } tt_fold_op;

typedef struct tt_fold {
    tt_fold_op op; // zero: copy
    tt_num type;
} tt_fold;

// Sums of 16-bit floats are made in 32 bits and rounded to nearest even.
void tt_fold_into(tt_fold fold, void *dst, const void *src, int64_t bytes);
// dst = a op b; dst may be either.
void tt_fold_two(tt_fold fold, void *dst, const void *a, const void *b,
                 int64_t bytes);

// 16-bit floats as 32-bit ones, and back: rounded to nearest even.
void tt_fold_widen(tt_num type, float *dst, const void *src, int64_t n);
void tt_fold_narrow(tt_num type, void *dst, const float *src, int64_t n);

#endif
