// pool_common - shapes and placements of pooling.

#include "ops/nn/pool_common.h"

#include "ops/shard_common.h"

#include <string.h>

tt_status tt__pool_infer(const char *op, const tt_pool_params *p,
                         const tt_shape *x, tt_shape *y)
{
    int64_t kernel[TT_MAX_SPATIAL];
    TT_TRY(tt_slide_check_image(op, x));
    TT_TRY(tt_slide_kernel(op, &p->slide, x->ndim - 2, kernel));
    *y = (tt_shape){0};
    TT_TRY(tt_shape_push_dim(y, x, 0));
    TT_TRY(tt_shape_push_dim(y, x, 1));
    return tt_slide_infer(op, &p->slide, kernel, x, y);
}

static void fill_kernel(const tt_pool_params *p, int n,
                        int64_t kernel[TT_MAX_SPATIAL])
{
    for (int i = 0; i < n; i++)
        kernel[i] = tt_slide_entry(&p->slide.kernel, i, 1);
}

double tt__pool_volume(const tt_pool_params *p, const tt_shape *x)
{
    double n = 1;
    for (int i = 0; i < x->ndim - 2; i++)
        n *= (double)tt_slide_entry(&p->slide.kernel, i, 1);
    return n;
}

void tt_pool_slides(const tt_pool_params *p, const tt_local *x,
                    const tt_local *y, tt_slide slide_out[TT_MAX_SPATIAL])
{
    int64_t kernel[TT_MAX_SPATIAL];
    fill_kernel(p, x->shape.ndim - 2, kernel);
    tt_slide_of(&p->slide, kernel, x, y, slide_out);
}

static const tt_type *find(const tt_op_io *io, const tt__pool_roles *roles,
                           char role)
{
    const char *in = strchr(roles->in, role);
    return in != NULL ? &io->in[in - roles->in] : &io->out[0];
}

static void add(const tt_op_io *io, const tt__pool_roles *roles,
                const tt_place place[2], tt_sigs *sigs)
{
    tt_sig *sig = tt_sigs_add(sigs);
    if (sig == NULL)
        return;
    for (int i = 0; i < io->n_in; i++)
        sig->in[i] = place[roles->in[i] == 'y'];
    for (int i = 0; i < io->n_out; i++)
        sig->out[i] = place[roles->out[i] == 'y'];
}

void tt__pool_shard(const tt_op_io *io, const tt__pool_roles *roles,
                    int axis_size, tt_sigs *sigs)
{
    const tt_pool_params *p = io->params;
    const tt_type *x = find(io, roles, 'x');
    const tt_type *y = find(io, roles, 'y');
    for (int f = 0; f < x->shape.first[2]; f++) {
        const int d = tt_shape_dim_of(&x->shape, f);
        const int twin = tt_shard_twin_at(&x->shape, f, &y->shape, d);
        if (twin >= 0 && tt_can_split(x, f, axis_size))
            add(io, roles,
                (const tt_place[]){tt_place_split(f), tt_place_split(twin)},
                sigs);
    }
    int64_t kernel[TT_MAX_SPATIAL];
    fill_kernel(p, x->shape.ndim - 2, kernel);
    for (int i = 0; i < x->shape.ndim - 2; i++) {
        tt_place place[2];
        if (tt_slide_place(&p->slide, kernel, x, y,
                           (tt_slide_split){i, axis_size}, place))
            add(io, roles, place, sigs);
    }
}
