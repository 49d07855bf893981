// placement - the cost of changing a placement.
//
//   Split -> Replicate      all-gather         (p-1)/p
//   Partial -> Replicate    all-reduce        2(p-1)/p
//   Partial -> Split        reduce-scatter     (p-1)/p
//   Split -> other Split    all-to-all         (p-1)/p^2
//   Split -> window, back   halo               a few rows: next to nothing
//   window -> Replicate     halo, all-gather
//   Replicate -> Split, Partial(sum)           nothing is sent

#include "pass/partition/placement.h"

double tt_type_bytes(const tt_type *type)
{
    return (double)(tt_shape_count(&type->shape) * tt_dtype_bytes(type->dtype));
}

static double halo(double bytes, int size)
{
    return bytes / size / 16;
}

static double split_to_split(const tt_place *from, const tt_place *to,
                             double bytes, int size)
{
    const double p = size;
    if (from->factor != to->factor)
        return from->window.out != 0 || to->window.out != 0 ||
                       from->rotate != 0 || to->rotate != 0
                   ? -1
                   : bytes * (p - 1) / p / p;
    if (from->rotate != to->rotate || from->zigzag != to->zigzag)
        return bytes / p;
    return halo(bytes, size);
}

double tt_placement_bytes(const tt_place *from, const tt_place *to,
                          double bytes, int size)
{
    const double p = size;
    const double part = (p - 1) / p * bytes;
    if (tt_place_equal(from, to))
        return 0;
    if (from->kind == TT_REPLICATE)
        return to->kind == TT_SPLIT ||
                       (to->kind == TT_PARTIAL && to->reduce == TT_SUM)
                   ? 0
                   : -1;
    if (to->kind == TT_PARTIAL)
        return -1;
    if (from->kind == TT_PARTIAL) {
        if (to->kind == TT_SPLIT && to->window.out == 0 && to->rotate == 0 &&
            from->reduce == TT_SUM)
            return part;
        return to->kind == TT_REPLICATE ? 2 * part : -1;
    }
    if (to->kind == TT_REPLICATE)
        return from->rotate != 0 ? -1
               : from->window.out != 0
                   ? halo(bytes, size) + part // its overlaps are terms
                   : part;
    return split_to_split(from, to, bytes, size);
}
