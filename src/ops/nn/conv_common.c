// conv_common - geometry, checks, cost and placements of convolutions.
//
//   y[n, o, p] = sum over c, k of x[n, c, p * stride - pad + k * dilation] *
//                                 w[o, c, k]
//
// The convolution and both of its gradients are this one sum of products; they differ
// in which of x, w and y is the result. So one table of placements serves all three.
// For every index of the sum that can be cut, operands that have the index are split.
// An input without it is replicated; a result without it is a partial sum:
//
//   index          x          w          y          what moves
//   n  samples     split      whole      split      nothing; of w's gradient, the sum
//   o  filters     whole      split      split      of x's gradient, the sum
//   c  channels    split      split      partial    the sum
//   p  space       halo       whole      split      rows at the seams (halo)
//
// Work and depth are those of Ben-Nun & Hoefler, table 6, by algorithm:
//
//   direct, im2col   W = N Co P Ci K               D = log Ci + sum of log K
//   fft              W = c S log S (Co Ci + N Ci + N Co) + S N Ci Co
//                                                  D = 2 log S + log Ci
//   winograd         W = a (r^2 + a r + 2 a^2 + a m + m^2) + Co Ci T
//                                                  D = 2 log r + 4 log a + log Ci
//
// P outputs and S inputs per channel, K entries of the kernel, T tiles of m x m
// outputs, r x r kernel, a = m + r - 1. For the gradients the summed index takes
// the place of Ci in the depth.

#include "ops/nn/conv_common.h"

#include "ops/cost.h"
#include "ops/shard_common.h"

#include <math.h>
#include <string.h>

// The constant c of the FFT's work: a complex radix-2 transform of n points
// takes 5 n log2 n real operations.
enum { FFT_CONSTANT = 5, WINOGRAD_TILE = 4 };

void tt__conv_kernel(const tt_shape *w, int64_t kernel_out[TT_MAX_SPATIAL])
{
    for (int i = 0; i < w->ndim - 2 && i < TT_MAX_SPATIAL; i++)
        kernel_out[i] = tt_shape_dim(w, i + 2);
}

tt_conv_geometry tt_conv_geometry_of(const tt_conv_params *p, const tt_local *x,
                                     const tt_local *w, const tt_local *y)
{
    const int64_t c = tt_shape_dim(&w->shape, 1);
    const int64_t groups = p->groups == 1 ? 1 : tt_shape_dim(&x->shape, 1) / c;
    tt_conv_geometry g = {
        .n = tt_shape_dim(&x->shape, 0),
        .groups = groups,
        .c = c,
        .o = tt_shape_dim(&w->shape, 0) / groups,
    };
    int64_t kernel[TT_MAX_SPATIAL];
    tt__conv_kernel(&w->shape, kernel);
    tt_slide_of(&p->slide, kernel, x, y, g.slide);
    return g;
}

static tt_status check_channels(const char *op, int64_t groups,
                                const tt_shape *x, const tt_shape *w)
{
    const int64_t c = tt_shape_dim(x, 1);
    const int64_t o = tt_shape_dim(w, 0);
    if (c % groups != 0)
        return tt_fail(TT_ERR_ARG,
                       "%s: %lld groups do not divide %lld input channels", op,
                       (long long)groups, (long long)c);
    if (o % groups != 0)
        return tt_fail(TT_ERR_ARG, "%s: %lld groups do not divide %lld filters",
                       op, (long long)groups, (long long)o);
    if (tt_shape_dim(w, 1) != c / groups)
        return tt_fail(TT_ERR_ARG,
                       "%s: w has %lld channels per filter, x has %lld per "
                       "group",
                       op, (long long)tt_shape_dim(w, 1),
                       (long long)(c / groups));
    return TT_OK;
}

tt_status tt__conv_infer(const char *op, const tt_conv_params *p,
                         const tt_shape *x, const tt_shape *w, tt_shape *y)
{
    TT_TRY(tt_slide_check_image(op, x));
    if (w->ndim != x->ndim)
        return tt_fail(TT_ERR_ARG,
                       "%s: w must have %d dimensions as x has, not %d", op,
                       (int)x->ndim, (int)w->ndim);
    if (w->n_factors != w->ndim)
        return tt_fail(TT_ERR_ARG,
                       "%s: the dimensions of w must be single factors", op);
    TT_TRY(check_channels(op, p->groups, x, w));
    int64_t kernel[TT_MAX_SPATIAL];
    tt__conv_kernel(w, kernel);
    *y = (tt_shape){0};
    TT_TRY(tt_shape_push_dim(y, x, 0));
    TT_TRY(tt_shape_push(y, x->factor[x->first[1]].name, tt_shape_dim(w, 0)));
    return tt_slide_infer(op, &p->slide, kernel, x, y);
}

// ---- cost ----

// The operand that plays a part (x, w, y, b) in this operator; NULL: it has none. This
// is what lets conv and its gradients share cost and placements.
static const tt_type *find(const tt_op_io *io, const tt__conv_roles *roles,
                           char role)
{
    if (roles->out == role)
        return &io->out[0];
    const char *at = strchr(roles->in, role);
    const int i = at == NULL ? io->n_in : (int)(at - roles->in);
    return tt_io_has(io, i) ? &io->in[i] : NULL;
}

static double space(const tt_shape *s)
{
    double n = 1;
    for (int d = 2; d < s->ndim; d++)
        n *= (double)tt_shape_dim(s, d);
    return n;
}

static double log2_up(double n)
{
    return ceil(log2(n));
}

// Whether Winograd's algorithm applies: square kernels of two dimensions, stride 1.
static bool is_winograd(const tt_conv_params *p, const tt_shape *w)
{
    const tt_slide_params *s = &p->slide;
    bool fits = p->algorithm == TT_CONV_WINOGRAD && p->groups == 1 &&
                w->ndim == 4 && tt_shape_dim(w, 2) == tt_shape_dim(w, 3) &&
                tt_shape_dim(w, 2) > 1;
    for (int i = 0; i < 2; i++)
        fits = fits && tt_slide_entry(&s->stride, i, 1) == 1 &&
               tt_slide_entry(&s->dilation, i, 1) == 1;
    return fits;
}

static void winograd_cost(const tt_shape *w, const tt_shape *y, tt_cost *cost)
{
    const double m = WINOGRAD_TILE;
    const double r = (double)tt_shape_dim(w, 2);
    const double a = m + r - 1;
    const double tiles = (double)tt_shape_dim(y, 0) *
                         ceil((double)tt_shape_dim(y, 2) / m) *
                         ceil((double)tt_shape_dim(y, 3) / m);
    cost->work =
        a * (r * r + a * r + 2 * a * a + a * m + m * m) +
        (double)tt_shape_dim(w, 0) * (double)tt_shape_dim(w, 1) * tiles;
    cost->depth += 2 * log2_up(r) + 4 * log2_up(a);
}

static void fft_cost(const tt_shape *x, const tt_shape *w, tt_cost *cost)
{
    const double n = (double)tt_shape_dim(x, 0);
    const double ci = (double)tt_shape_dim(w, 1);
    const double co = (double)tt_shape_dim(w, 0);
    const double s = space(x);
    cost->work = FFT_CONSTANT * s * log2(s) * (co * ci + n * ci + n * co) +
                 s * n * ci * co;
    cost->depth += 2 * log2_up(s);
}

static void direct_cost(const tt_shape *w, tt_cost *cost)
{
    cost->work = cost->flops / 2;
    for (int d = 2; d < w->ndim; d++)
        cost->depth += log2_up((double)tt_shape_dim(w, d));
}

void tt__conv_cost(const tt_op_io *io, const tt__conv_roles *roles,
                   tt_cost *cost)
{
    const tt_conv_params *p = io->params;
    const tt_type *x = find(io, roles, 'x');
    const tt_type *w = find(io, roles, 'w');
    const tt_type *y = find(io, roles, 'y');
    const double per_output =
        tt_cost_count(w) / (double)tt_shape_dim(&w->shape, 0);
    double summed = (double)tt_shape_dim(&w->shape, 1);
    if (roles->out == 'x')
        summed = (double)tt_shape_dim(&w->shape, 0);
    if (roles->out == 'w')
        summed = (double)tt_shape_dim(&y->shape, 0) * space(&y->shape);
    cost->flops = 2 * tt_cost_count(y) * per_output;
    cost->depth = log2_up(summed);
    if (is_winograd(p, &w->shape))
        winograd_cost(&w->shape, &y->shape, cost);
    else if (p->algorithm == TT_CONV_FFT)
        fft_cost(&x->shape, &w->shape, cost);
    else
        direct_cost(&w->shape, cost);
    cost->depth = fmax(cost->depth, 1);
}

// ---- placements ----

// The placements of all operands when one index of the sum is cut.
typedef struct cut {
    tt_place x, w, y, b;
} cut;

static tt_place place_of(const cut *c, char role)
{
    switch (role) {
    case 'x':
        return c->x;
    case 'w':
        return c->w;
    case 'y':
        return c->y;
    default:
        return c->b;
    }
}

static void add(const tt_op_io *io, const tt__conv_roles *roles, const cut *c,
                tt_sigs *sigs)
{
    tt_sig *sig = tt_sigs_add(sigs);
    if (sig == NULL)
        return;
    for (int i = 0; i < io->n_in; i++)
        sig->in[i] = place_of(c, roles->in[i]);
    sig->out[0] = place_of(c, roles->out);
    if (sig->out[0].kind == TT_REPLICATE)
        sig->out[0] = tt_place_partial(TT_SUM);
}

static void cut_batch(const tt_op_io *io, const tt__conv_roles *roles,
                      int axis_size, tt_sigs *sigs)
{
    const tt_type *x = find(io, roles, 'x');
    const tt_type *y = find(io, roles, 'y');
    for (int f = 0; f < x->shape.first[1]; f++) {
        const int twin = tt_shard_twin_at(&x->shape, f, &y->shape, 0);
        if (twin >= 0 && tt_can_split(x, f, axis_size))
            add(io, roles,
                &(cut){.x = tt_place_split(f), .y = tt_place_split(twin)},
                sigs);
    }
}

// Cuts filters or input channels; with groups, both at once.
static void cut_channels(const tt_op_io *io, const tt__conv_roles *roles,
                         int axis_size, tt_sigs *sigs)
{
    const tt_conv_params *p = io->params;
    const tt_type *x = find(io, roles, 'x');
    const tt_type *y = find(io, roles, 'y');
    const tt_type *w = find(io, roles, 'w');
    const tt_type *b = find(io, roles, 'b');
    const tt_place of_x = tt_place_split(x->shape.first[1]);
    const tt_place of_y = tt_place_split(y->shape.first[1]);
    const bool is_plain = y->shape.first[2] - y->shape.first[1] == 1 &&
                          (b == NULL || b->shape.n_factors == 1);
    if (p->groups > 1) {
        if (is_plain && p->groups % axis_size == 0)
            add(io, roles,
                &(cut){of_x, tt_place_split(0), of_y, tt_place_split(0)}, sigs);
        return;
    }
    if (is_plain && tt_can_split(w, 0, axis_size))
        add(io, roles,
            &(cut){.w = tt_place_split(0), .y = of_y, .b = tt_place_split(0)},
            sigs);
    if (tt_can_split(w, 1, axis_size))
        add(io, roles,
            &(cut){.x = of_x,
                   .w = tt_place_split(1),
                   .b = tt_place_partial(TT_SUM)},
            sigs);
}

// Cuts space. x has a window: a rank's part plus the halo that its outputs read.
static void cut_space(const tt_op_io *io, const tt__conv_roles *roles,
                      int axis_size, tt_sigs *sigs)
{
    const tt_conv_params *p = io->params;
    const tt_type *x = find(io, roles, 'x');
    const tt_type *y = find(io, roles, 'y');
    int64_t kernel[TT_MAX_SPATIAL];
    tt__conv_kernel(&find(io, roles, 'w')->shape, kernel);
    for (int i = 0; i < x->shape.ndim - 2; i++) {
        tt_place place[2];
        if (tt_slide_place(&p->slide, kernel, x, y,
                           (tt_slide_split){i, axis_size}, place))
            add(io, roles, &(cut){.x = place[0], .y = place[1]}, sigs);
    }
}

void tt__conv_shard(const tt_op_io *io, const tt__conv_roles *roles,
                    int axis_size, tt_sigs *sigs)
{
    cut_batch(io, roles, axis_size, sigs);
    cut_channels(io, roles, axis_size, sigs);
    cut_space(io, roles, axis_size, sigs);
}

const tt_opt tt__conv_options[] = {
    {"stride", "1", "step from output to output, per dimension or for all",
     TT_OPT_I64S, offsetof(tt_conv_params, slide.stride), NULL, 1, 1e6},
    {"pad", "0", "zeros around the input", TT_OPT_I64S,
     offsetof(tt_conv_params, slide.pad), NULL, 0, 1e6},
    {"dilation", "1", "step from kernel entry to kernel entry", TT_OPT_I64S,
     offsetof(tt_conv_params, slide.dilation), NULL, 1, 1e6},
    {"groups", "1", "groups of channels that do not see each other", TT_OPT_I64,
     offsetof(tt_conv_params, groups), NULL, 1, 1e9},
    {"algorithm", "auto", "preferred where it applies", TT_OPT_CHOICE,
     offsetof(tt_conv_params, algorithm), "auto|direct|im2col|winograd|fft", 0,
     0},
    {"wide", "false", "conv's y is f32 where x and w are of 16 bits",
     TT_OPT_BOOL, offsetof(tt_conv_params, wide), NULL, 0, 0},
    {0},
};
