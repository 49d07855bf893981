// list - the tables of functions that each instruction set has, one line for each.
// Expanded by simd.h (members) and simd.c (the table). A family's header defines
// tt_simd_NAME and is included by simd.h; its .c file defines TT_SYMBOL(tt_simd_NAME).

TT_SIMD(attention)
TT_SIMD(norm)
TT_SIMD(activation)
TT_SIMD(loss)
TT_SIMD(embedding)
TT_SIMD(experts)
TT_SIMD(elementwise)
TT_SIMD(permute)
TT_SIMD(reduce)
TT_SIMD(optimizer)
TT_SIMD(dropout)
TT_SIMD(lstm)
TT_SIMD(channels)
TT_SIMD(fold)
TT_SIMD(matvec)
TT_SIMD(merge)
TT_SIMD(pointwise)
TT_SIMD(rotary)
TT_SIMD(score)
TT_SIMD(recurrence)
