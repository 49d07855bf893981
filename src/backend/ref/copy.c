// copy - moves elements between operands with any strides. It walks factor by factor,
// not dim by dim: after a split, the factors of one dim may lie apart in memory, so
// that a dim has no single stride.

#include "backend/ref/copy.h"

#include "ops/shape/view.h"

#include <string.h>

tt__strided tt__strided_of(const tt_operand *operand, const void *base)
{
    tt__strided s = {.base = (char *)(uintptr_t)base};
    tt_view_split_dims(operand, s.stride);
    return s;
}

tt__strided tt__strided_select(const tt__strided *whole, int f, int64_t i,
                               int64_t bytes)
{
    tt__strided s = *whole;
    s.base += i * whole->stride[f] * bytes;
    for (int k = f; k + 1 < TT_MAX_FACTORS; k++)
        s.stride[k] = whole->stride[k + 1];
    return s;
}

// All entries of factor f and those after it.
static void copy_from(const tt_shape *shape, int f, int64_t bytes,
                      const tt__strided *to, const tt__strided *from)
{
    if (f == shape->n_factors) {
        memcpy(to->base, from->base, (size_t)bytes);
        return;
    }
    const int64_t n = shape->factor[f].size;
    if (f == shape->n_factors - 1 && to->stride[f] == 1 &&
        from->stride[f] == 1) {
        memcpy(to->base, from->base, (size_t)(n * bytes));
        return;
    }
    tt__strided t = *to, s = *from;
    for (int64_t i = 0; i < n; i++) {
        copy_from(shape, f + 1, bytes, &t, &s);
        t.base += to->stride[f] * bytes;
        s.base += from->stride[f] * bytes;
    }
}

void tt__copy(void *ctx, const tt_shape *shape, int64_t bytes,
              const tt__strided *to, const tt__strided *from)
{
    (void)ctx;
    copy_from(shape, 0, bytes, to, from);
}
