// attention - what the kernels of attention share: heads where they lie.

#ifndef TT_BACKEND_CPU_ATTENTION_H
#define TT_BACKEND_CPU_ATTENTION_H

#include "backend/cpu/simd.h"
#include "graph/site.h"

enum { TT__ATTENTION_MAX_HEAD = 256 };

// The key-value heads (input 1) that the query heads (input 0) read: n of them from
// `first` on. False when they are not read by equally many query heads each.
bool tt__heads_map(const tt_site *site, int64_t *first_out, int64_t *n_out);

// Heads must be contiguous; an operand that is not shall come dense.
void tt__heads_fit(tt_operand *o);

// Heads from `first` on of an operand [batch, seq, heads, head].
tt_simd_heads tt__heads_cut(const tt_operand *o, const void *base,
                            int64_t first);

#endif
