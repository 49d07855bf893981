// copy - a strided copy of any number of dims. Dims that are contiguous on both sides
// are merged, and the last four go to the vectorised function, once for each index of
// the dims before them. After merging, most copies have no more than four.

#include "backend/cpu/copy.h"

#include "backend/cpu/simd.h"

bool tt__can_copy(tt_dtype dtype)
{
    return tt_dtype_bytes(dtype) == 2 || tt_dtype_bytes(dtype) == 4;
}

// Merges neighbouring dims that are contiguous on both sides and drops extents of 1.
static tt__strided_block merge(const tt__strided_block *b)
{
    tt__strided_block m = {0};
    for (int d = 0; d < b->n; d++) {
        if (b->dims[d] == 1)
            continue;
        const int k = m.n - 1;
        const bool joins = k >= 0 && m.from[k] == b->dims[d] * b->from[d] &&
                           m.to[k] == b->dims[d] * b->to[d];
        const int at = joins ? k : m.n++;
        m.dims[at] = joins ? m.dims[at] * b->dims[d] : b->dims[d];
        m.from[at] = b->from[d];
        m.to[at] = b->to[d];
    }
    return m;
}

void tt__copy_block(const tt__strided_block *block, int64_t bytes,
                    const void *from, void *to)
{
    const tt__strided_block b = merge(block);
    const int first =
        b.n > TT_SIMD_PERMUTE_DIMS ? b.n - TT_SIMD_PERMUTE_DIMS : 0;
    tt_simd_permute_args a = {.type = bytes == 2 ? TT_SIMD_BF16 : TT_SIMD_F32};
    int64_t n_calls = 1;
    for (int d = 0; d < first; d++)
        n_calls *= b.dims[d];
    for (int k = 0; k < TT_SIMD_PERMUTE_DIMS; k++) {
        const int d = first + k;
        a.dims[k] = d < b.n ? b.dims[d] : 1;
        a.x_stride[k] = d < b.n ? b.from[d] : 0;
        a.y_stride[k] = d < b.n ? b.to[d] : 0;
    }
    for (int64_t i = 0; i < n_calls; i++) {
        int64_t at_from = 0, at_to = 0;
        for (int64_t d = first - 1, rest = i; d >= 0; d--) {
            at_from += rest % b.dims[d] * b.from[d];
            at_to += rest % b.dims[d] * b.to[d];
            rest /= b.dims[d];
        }
        a.x = (const char *)from + at_from * bytes;
        a.y = (char *)to + at_to * bytes;
        tt_simd_get()->permute->copy(&a);
    }
}

void tt__copy_fast(void *ctx, const tt_shape *shape, int64_t bytes,
                   const tt__strided *to, const tt__strided *from)
{
    (void)ctx;
    tt__strided_block b = {.n = shape->n_factors};
    for (int f = 0; f < shape->n_factors; f++) {
        b.dims[f] = shape->factor[f].size;
        b.from[f] = from->stride[f];
        b.to[f] = to->stride[f];
    }
    tt__copy_block(&b, bytes, from->base, to->base);
}
