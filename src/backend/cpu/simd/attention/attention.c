// attention - the table of the directions, which have a file each.

#include "backend/cpu/simd/attention/attention_block.h"

extern const tt_simd_attention TT_SYMBOL(tt_simd_attention);

const tt_simd_attention TT_SYMBOL(tt_simd_attention) = {
    .forward_scratch_bytes = TT_SYMBOL(tt__attention_forward_bytes),
    .forward = TT_SYMBOL(tt__attention_forward),
    .decode_scratch_bytes = TT_SYMBOL(tt__attention_decode_bytes),
    .decode = TT_SYMBOL(tt__attention_decode),
    .backward_scratch_bytes = TT_SYMBOL(tt__attention_backward_bytes),
    .backward = TT_SYMBOL(tt__attention_backward),
};
