// cache - what a decoder remembers: keys and values of the tokens so far.
//
//   cache_write       cache [batch, context, ..], new [batch, n, ..], position
//                     -> cache with entries position .. position + n - 1 replaced
//   attention_cached  q [batch, n, heads, head], k and v [batch, context, kv_heads,
//                     head], position -> o like q; query i sees the keys
//                     0 .. position + i
//
// The position is an int64 scalar: what was written before this step.

#ifndef TT_OPS_NN_CACHE_H
#define TT_OPS_NN_CACHE_H

#include "graph/build.h"

tt_val tt_cache_write(tt_builder *b, tt_val cache, tt_val fresh,
                      tt_val position);

tt_val tt_attention_cached(tt_builder *b, const tt_val qkv[3], tt_val position);

#endif
