// slide - extents, checks and placements of sliding windows.

#include "ops/shape/slide.h"

int64_t tt_slide_entry(const tt_i64s *list, int i, int64_t fallback)
{
    if (list->n == 0)
        return fallback;
    return list->v[list->n == 1 ? 0 : i];
}

static tt_slide plain_slide(const tt_slide_params *p, const int64_t *kernel,
                            int i)
{
    return (tt_slide){
        .kernel = kernel[i],
        .stride = tt_slide_entry(&p->stride, i, kernel[i]),
        .dilation = tt_slide_entry(&p->dilation, i, 1),
        .pad = tt_slide_entry(&p->pad, i, 0),
    };
}

void tt_slide_of(const tt_slide_params *p, const int64_t *kernel,
                 const tt_local *x, const tt_local *y,
                 tt_slide slide_out[TT_MAX_SPATIAL])
{
    const int n = x->shape.ndim - 2;
    for (int i = 0; i < TT_MAX_SPATIAL - n; i++)
        slide_out[i] = (tt_slide){1, 1, 1, 1, 1, 0, 0, 1};
    for (int i = 0; i < n; i++) {
        tt_slide s = plain_slide(p, kernel, i);
        const int fx = x->shape.first[i + 2];
        const int fy = y->shape.first[i + 2];
        s.in = tt_shape_dim(&x->shape, i + 2);
        s.out = tt_shape_dim(&y->shape, i + 2);
        s.origin = x->origin[fx];
        s.whole_in = x->global[fx];
        s.pad += x->origin[fx] - y->origin[fy] * s.stride;
        slide_out[TT_MAX_SPATIAL - n + i] = s;
    }
}

static tt_status check_list(const char *op, const char *what,
                            const tt_i64s *list, int n)
{
    if (list->n <= 1 || list->n == n)
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "%s: %s has %lld entries for %d spatial dimensions", op,
                   what, (long long)list->n, n);
}

tt_status tt_slide_kernel(const char *op, const tt_slide_params *p, int n,
                          int64_t kernel_out[TT_MAX_SPATIAL])
{
    if (p->kernel.n == 0)
        return tt_fail(TT_ERR_ARG, "%s: no kernel is given", op);
    TT_TRY(check_list(op, "kernel", &p->kernel, n));
    for (int i = 0; i < n && i < TT_MAX_SPATIAL; i++)
        kernel_out[i] = tt_slide_entry(&p->kernel, i, 1);
    return TT_OK;
}

tt_status tt_slide_check_image(const char *op, const tt_shape *x)
{
    if (x->ndim < 3 || x->ndim > 2 + TT_MAX_SPATIAL)
        return tt_fail(TT_ERR_ARG,
                       "%s: x must be [batch, channels, 1 to 3 spatial "
                       "dimensions], not have %d dimensions",
                       op, (int)x->ndim);
    for (int d = 1; d < x->ndim; d++)
        if (x->first[d + 1] - x->first[d] != 1)
            return tt_fail(
                TT_ERR_ARG,
                "%s: channels and space of x must be single factors; "
                "dimension %d is a product",
                op, d);
    return TT_OK;
}

// The output's extent along spatial dimension i.
static tt_status extent(const char *op, const tt_slide *s, const tt_shape *x,
                        int i, int64_t *out)
{
    const int64_t n = tt_shape_dim(x, i + 2);
    const int64_t span = (s->kernel - 1) * s->dilation + 1;
    const int64_t padded = n + 2 * s->pad;
    if (span > padded)
        return tt_fail(TT_ERR_ARG,
                       "%s: the window spans %lld entries along %s, the padded "
                       "input has %lld",
                       op, (long long)span, x->factor[x->first[i + 2]].name,
                       (long long)padded);
    *out = (padded - span) / s->stride + 1;
    return TT_OK;
}

tt_status tt_slide_infer(const char *op, const tt_slide_params *p,
                         const int64_t *kernel, const tt_shape *x, tt_shape *y)
{
    const int n = x->ndim - 2;
    TT_TRY(check_list(op, "stride", &p->stride, n));
    TT_TRY(check_list(op, "pad", &p->pad, n));
    TT_TRY(check_list(op, "dilation", &p->dilation, n));
    for (int i = 0; i < n; i++) {
        const tt_slide s = plain_slide(p, kernel, i);
        int64_t out = 0;
        TT_TRY(extent(op, &s, x, i, &out));
        TT_TRY(tt_shape_push(y, x->factor[x->first[i + 2]].name, out));
    }
    return TT_OK;
}

bool tt_slide_place(const tt_slide_params *p, const int64_t *kernel,
                    const tt_type *x, const tt_type *y, tt_slide_split split,
                    tt_place place_out[2])
{
    const int fx = x->shape.first[split.dim + 2];
    const int fy = y->shape.first[split.dim + 2];
    if (y->shape.first[split.dim + 3] - fy != 1 ||
        !tt_can_split(x, fx, split.axis_size) ||
        !tt_can_split(y, fy, split.axis_size))
        return false;
    const tt_slide s = plain_slide(p, kernel, split.dim);
    place_out[0] = tt_place_split(fx);
    place_out[1] = tt_place_split(fy);
    if (s.kernel == 1 && s.stride == 1 && s.pad == 0)
        return true; // output and input are split alike: no halo
    place_out[0].window = (tt_window){
        .out = y->shape.factor[fy].size,
        .kernel = (int32_t)s.kernel,
        .stride = (int32_t)s.stride,
        .pad = (int32_t)s.pad,
        .dilation = (int32_t)s.dilation,
    };
    // A rank whose windows see only padding would hold nothing, so such a split is
    // refused. Where the windows of every rank see exactly its own block (pooling with
    // even blocks), no halo is needed.
    const int64_t n = x->shape.factor[fx].size;
    const tt_place block = tt_place_split(fx);
    bool is_block = true;
    for (int c = 0; c < split.axis_size; c++) {
        int64_t lo, hi, first, end;
        tt_place_range(&place_out[0], n, split.axis_size, c, &lo, &hi);
        tt_place_range(&block, n, split.axis_size, c, &first, &end);
        if (lo == hi)
            return false;
        is_block &= lo == first && hi == end;
    }
    if (is_block)
        place_out[0] = block;
    return true;
}
