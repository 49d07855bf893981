// conv, conv_grad_x, conv_grad_w, conv_grad_b - reference kernels.
//
// A convolution and its two gradients are matrix products in which one side is read
// through the window (im2col):
//
//                 rows              columns             summed over
//   conv          filters           output pixels       (channel, kernel)
//   conv_grad_w   filters           (channel, kernel)   output pixels
//   conv_grad_x   channels          input pixels        (filter, kernel)
//
// gemm.h asks a function for each line, so the matrix of windows never exists in
// memory. There is one product per group.

#include "ops/nn/conv.h"

#include "backend/ref/gemm.h"
#include "backend/ref/ref.h"
#include "ops/ops.h"

static double load(tt_dtype dtype, const void *base, int64_t i)
{
    if (dtype == TT_F64)
        return ((const double *)base)[i];
    if (dtype == TT_F32)
        return (double)((const float *)base)[i];
    return tt_dtype_load(dtype, base, i);
}

// One group of a tensor [n, groups * per_group, a, b, c].
typedef struct tensor {
    const void *base;
    tt_dtype dtype;
    int64_t channels, first; // all, and the group's first
    int64_t extent[TT_MAX_SPATIAL];
} tensor;

static int64_t index_of(const tensor *t, int64_t n, int64_t c,
                        const int64_t at[TT_MAX_SPATIAL])
{
    return (((n * t->channels + t->first + c) * t->extent[0] + at[0]) *
                t->extent[1] +
            at[1]) *
               t->extent[2] +
           at[2];
}

static int64_t volume(const int64_t extent[TT_MAX_SPATIAL])
{
    return extent[0] * extent[1] * extent[2];
}

// Counts through (outer, a, b, c), the last fastest.
typedef struct odometer {
    int64_t outer, at[TT_MAX_SPATIAL];
    const int64_t *extent;
} odometer;

static odometer odometer_at(const int64_t *extent, int64_t i)
{
    odometer o = {.extent = extent};
    for (int d = TT_MAX_SPATIAL - 1; d >= 0; d--) {
        o.at[d] = i % extent[d];
        i /= extent[d];
    }
    o.outer = i;
    return o;
}

static void odometer_next(odometer *o)
{
    for (int d = TT_MAX_SPATIAL - 1; d >= 0; d--) {
        if (++o->at[d] < o->extent[d])
            return;
        o->at[d] = 0;
    }
    o->outer++;
}

// One group of a convolution, as the three products see it.
typedef struct group {
    tt_conv_geometry g;
    int64_t kernel[TT_MAX_SPATIAL];
    tensor x, y,
        w; // w: [filter, channel, kernel]; what is not read has no base
    void *result;
    const void *bias;
    tt_dtype bias_dtype;
} group;

// x under the window at output o, kernel entry k; zero outside.
static double window_entry(const group *t, const odometer *o, const odometer *k,
                           int64_t n, int64_t c)
{
    int64_t at[TT_MAX_SPATIAL];
    for (int d = 0; d < TT_MAX_SPATIAL; d++) {
        const tt_slide *s = &t->g.slide[d];
        at[d] = tt_slide_at(s, o->at[d], k->at[d]);
        if (at[d] < 0 || at[d] >= s->in)
            return 0;
    }
    return load(t->x.dtype, t->x.base, index_of(&t->x, n, c, at));
}

// y at the output that reads input i at kernel entry k; zero if there is none.
static double output_entry(const group *t, const odometer *i, const odometer *k)
{
    int64_t at[TT_MAX_SPATIAL];
    for (int d = 0; d < TT_MAX_SPATIAL; d++) {
        const tt_slide *s = &t->g.slide[d];
        const int64_t from = i->at[d] + s->pad - k->at[d] * s->dilation;
        if (from < 0 || (s->stride > 1 && from % s->stride != 0))
            return 0;
        at[d] = s->stride > 1 ? from / s->stride : from;
        if (at[d] >= s->out)
            return 0;
    }
    return load(t->y.dtype, t->y.base, index_of(&t->y, i->outer, k->outer, at));
}

// Line: output pixel of a sample. Entries: (channel, kernel).
static void read_windows(const void *side, int64_t line, int64_t l0, int64_t n,
                         double *out, int64_t step)
{
    const group *t = side;
    const odometer o = odometer_at(t->y.extent, line);
    odometer k = odometer_at(t->kernel, l0);
    for (int64_t l = 0; l < n; l++, odometer_next(&k))
        out[l * step] = window_entry(t, &o, &k, o.outer, k.outer);
}

// Line: (channel, kernel). Entries: output pixels of all samples.
static void read_entries(const void *side, int64_t line, int64_t l0, int64_t n,
                         double *out, int64_t step)
{
    const group *t = side;
    const odometer k = odometer_at(t->kernel, line);
    odometer o = odometer_at(t->y.extent, l0);
    for (int64_t l = 0; l < n; l++, odometer_next(&o))
        out[l * step] = window_entry(t, &o, &k, o.outer, k.outer);
}

// Line: input pixel of a sample. Entries: (filter, kernel).
static void read_outputs(const void *side, int64_t line, int64_t l0, int64_t n,
                         double *out, int64_t step)
{
    const group *t = side;
    const odometer i = odometer_at(t->x.extent, line);
    odometer k = odometer_at(t->kernel, l0);
    for (int64_t l = 0; l < n; l++, odometer_next(&k))
        out[l * step] = output_entry(t, &i, &k);
}

// Line: filter. Entries: (channel, kernel).
static void read_filter(const void *side, int64_t line, int64_t l0, int64_t n,
                        double *out, int64_t step)
{
    const group *t = side;
    const int64_t row = t->g.c * volume(t->kernel);
    const tt__matrix w = {t->w.base, t->w.dtype, row, 1};
    tt__matrix_read(&w, t->w.first + line, l0, n, out, step);
}

// Line: channel. Entries: (filter, kernel).
static void read_channel(const void *side, int64_t line, int64_t l0, int64_t n,
                         double *out, int64_t step)
{
    const group *t = side;
    odometer k = odometer_at(t->kernel, l0);
    const int64_t points = volume(t->kernel);
    for (int64_t l = 0; l < n; l++, odometer_next(&k)) {
        const int64_t filter = t->w.first + k.outer;
        out[l * step] =
            load(t->w.dtype, t->w.base,
                 (filter * t->g.c + line) * points + (l0 + l) % points);
    }
}

// Line: filter. Entries: output pixels of all samples.
static void read_dy(const void *side, int64_t line, int64_t l0, int64_t n,
                    double *out, int64_t step)
{
    const group *t = side;
    const int64_t points = volume(t->y.extent);
    const tt__matrix y = {t->y.base, t->y.dtype, points, 1};
    while (n > 0) {
        const int64_t sample = l0 / points, from = l0 % points;
        const int64_t m = n < points - from ? n : points - from;
        const int64_t row = sample * t->y.channels + t->y.first + line;
        tt__matrix_read(&y, row, from, m, out, step);
        out += m * step;
        l0 += m;
        n -= m;
    }
}

// Row i, pixels of all samples, to a tensor of result's shape.
static void write_pixels(const group *t, const tensor *to, int64_t i,
                         const int64_t range[2], const double *c)
{
    const int64_t points = volume(to->extent);
    const double bias =
        t->bias == NULL ? 0
                        : tt_dtype_load(t->bias_dtype, t->bias, to->first + i);
    for (int64_t j = 0; j < range[1]; j++) {
        const int64_t sample = (range[0] + j) / points;
        const int64_t at = (sample * to->channels + to->first + i) * points +
                           (range[0] + j) % points;
        tt_dtype_store(to->dtype, t->result, at, c[j] + bias);
    }
}

static void write_y(const void *to, int64_t i, int64_t j0, int64_t n,
                    const double *c)
{
    const group *t = to;
    write_pixels(t, &t->y, i, (const int64_t[]){j0, n}, c);
}

static void write_x(const void *to, int64_t i, int64_t j0, int64_t n,
                    const double *c)
{
    const group *t = to;
    write_pixels(t, &t->x, i, (const int64_t[]){j0, n}, c);
}

// Sets what the three products share, for one group.
static group group_of(const tt_conv_params *p, const tt_operand *x,
                      const tt_operand *w, const tt_operand *y)
{
    group t = {.g = tt_conv_geometry_of(p, &x->local, &w->local, &y->local)};
    for (int d = 0; d < TT_MAX_SPATIAL; d++) {
        t.kernel[d] = t.g.slide[d].kernel;
        t.x.extent[d] = t.g.slide[d].in;
        t.y.extent[d] = t.g.slide[d].out;
    }
    t.x.dtype = x->dtype;
    t.w.dtype = w->dtype;
    t.y.dtype = y->dtype;
    t.x.channels = t.g.groups * t.g.c;
    t.y.channels = t.g.groups * t.g.o;
    return t;
}

static void select_group(group *t, int64_t i)
{
    t->x.first = i * t->g.c;
    t->y.first = i * t->g.o;
    t->w.first = i * t->g.o;
}

tt_status tt__ref_conv(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    group t = group_of(site->params, &site->in[0], &site->in[1], &site->out[0]);
    t.x.base = args->in[0];
    t.w.base = args->in[1];
    t.result = args->out[0];
    if (tt_site_has(site, 2)) {
        t.bias = args->in[2];
        t.bias_dtype = site->in[2].dtype;
    }
    const tt__gemm g = {
        .m = t.g.o,
        .n = t.g.n * volume(t.y.extent),
        .k = t.g.c * volume(t.kernel),
        .a = &t,
        .b = &t,
        .to = &t,
        .read_a = read_filter,
        .read_b = read_windows,
        .write = write_y,
    };
    for (int64_t i = 0; i < t.g.groups; i++) {
        select_group(&t, i);
        tt__gemm_run(&g, args->scratch);
    }
    return TT_OK;
}

tt_status tt__ref_conv_grad_x(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    group t = group_of(site->params, &site->out[0], &site->in[1], &site->in[0]);
    t.y.base = args->in[0];
    t.w.base = args->in[1];
    t.result = args->out[0];
    const tt__gemm g = {
        .m = t.g.c,
        .n = t.g.n * volume(t.x.extent),
        .k = t.g.o * volume(t.kernel),
        .a = &t,
        .b = &t,
        .to = &t,
        .read_a = read_channel,
        .read_b = read_outputs,
        .write = write_x,
    };
    for (int64_t i = 0; i < t.g.groups; i++) {
        select_group(&t, i);
        tt__gemm_run(&g, args->scratch);
    }
    return TT_OK;
}

static tt_status run_grad_w(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    group t = group_of(site->params, &site->in[0], &site->out[0], &site->in[1]);
    t.x.base = args->in[0];
    t.y.base = args->in[1];
    const int64_t row = t.g.c * volume(t.kernel);
    const tt_dtype dtype = site->out[0].dtype;
    tt__sum to = {dtype, args->out[0], row, args->accumulate};
    const tt__gemm g = {
        .m = t.g.o,
        .n = row,
        .k = t.g.n * volume(t.y.extent),
        .a = &t,
        .b = &t,
        .to = &to,
        .read_a = read_dy,
        .read_b = read_entries,
        .write = tt__sum_write,
    };
    for (int64_t i = 0; i < t.g.groups; i++) {
        select_group(&t, i);
        to.base =
            (char *)args->out[0] + i * t.g.o * row * tt_dtype_bytes(dtype);
        tt__gemm_run(&g, args->scratch);
    }
    return TT_OK;
}

tt_status tt__ref_conv_grad_b(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    const tt_operand *dy = &site->in[0];
    const int64_t n = tt_operand_dim(dy, 0), c = tt_operand_dim(dy, 1);
    const int64_t points = tt_operand_count(dy) / (n * c);
    const tt__sum to = {site->out[0].dtype, args->out[0], c, args->accumulate};
    for (int64_t j = 0; j < c; j++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            for (int64_t p = 0; p < points; p++)
                sum += load(dy->dtype, args->in[0], (i * c + j) * points + p);
        tt__sum_write(&to, 0, j, 1, &sum);
    }
    return TT_OK;
}

const tt_kernel_def tt__ref_conv_kernels[] = {
    {TT_KERNEL(ref, conv), .prepare = tt__gemm_prepare, .run = tt__ref_conv},
    {TT_KERNEL(ref, conv_grad_x), .prepare = tt__gemm_prepare,
     .run = tt__ref_conv_grad_x},
    {TT_KERNEL(ref, conv_grad_w), .accumulates = true,
     .prepare = tt__gemm_prepare, .run = run_grad_w},
    {TT_KERNEL(ref, conv_grad_b), .accumulates = true,
     .run = tt__ref_conv_grad_b},
    {0},
};
