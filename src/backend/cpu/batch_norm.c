// batch_norm, its gradient and their parts - around the vectorised functions of
// simd/channels. Images may have their channels in any blocks: the layout that the
// convolution before chose is kept for the one after.
//
// Statistics may be those of groups of samples (`group`), and a rank may have some of
// the groups only. So everything is a loop over the groups that are here.

#include "ops/nn/batch_norm.h"

#include "backend/cpu/conv_parts.h"
#include "backend/cpu/wrap.h"
#include "base/alloc.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

// Scratch: arrays of one value per channel. Doubles come first, for alignment.
enum { SUMS = 0, TOTALS = 2, N_DOUBLES = 4 };
enum { GAMMA, BETA, MEAN, RSTD, N_FLOATS };

typedef struct state {
    tt_batch_norm_geometry g;
    int64_t block;
} state;

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__cpu_is_fast(site->in[0].dtype);
}

static bool is_image(const tt_site *site, const tt_operand *o)
{
    return o->local.shape.ndim == site->in[0].local.shape.ndim &&
           tt_shape_same_dims(&o->local.shape, &site->in[0].local.shape);
}

// Gives all images the layout of x. A last block of channels with padding is not
// supported.
static tt_status set_forms(tt_backend *backend, tt_site *site, state *s)
{
    const int32_t layout = site->in[0].layout;
    s->block = tt__dnnl_layout_channel_block(tt__cpu_dnnl(backend), layout);
    if (s->block == 0 || s->g.channels % s->block != 0)
        return TT_ERR_UNSUPPORTED;
    if (s->g.points == 1 && layout == 0)
        s->block = s->g.channels;
    for (int i = 0; i < site->n_in; i++)
        if (tt_site_has(site, i))
            tt__operand_set_layout(&site->in[i],
                                   is_image(site, &site->in[i]) ? layout : 0);
    for (int i = 0; i < site->n_out; i++)
        tt__operand_set_layout(&site->out[i],
                               is_image(site, &site->out[i]) ? layout : 0);
    return TT_OK;
}

static tt_simd_channels_args base_args(const tt_site *site, const state *s)
{
    const tt_batch_norm_params *p = site->params;
    return (tt_simd_channels_args){
        .type = tt__simd_type_of(site->in[0].dtype),
        .samples = s->g.samples,
        .channels = s->g.channels,
        .points = s->g.points,
        .block = s->block,
        .has_relu = p->activation == TT_BATCH_NORM_RELU,
        .epsilon = p->eps,
        .count = s->g.count,
    };
}

static int64_t room_bytes(int64_t channels)
{
    return tt__round64(channels * 8) * N_DOUBLES +
           tt__round64(channels * 4) * N_FLOATS;
}

// The operand that has statistics, with a row per group. Which one it is depends on the
// operator: forward writes them, apply and the gradients read them.
static const tt_local *statistics(const tt_site *site)
{
    if (site->op == &tt_op_batch_norm)
        return site->n_out > 1 ? &site->out[1].local : NULL;
    if (site->op == &tt_op_batch_norm_moments)
        return &site->out[0].local;
    if (site->op == &tt_op_batch_norm_apply)
        return &site->in[5].local;
    return &site->in[site->op == &tt_op_batch_norm_grad_sums ? 2 : 3].local;
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    state *s = tt_alloc(sizeof(*s));
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "batch_norm: no memory for a kernel");
    s->g = tt_batch_norm_geometry_of(site->params, &site->in[0].local,
                                     statistics(site));
    const tt_status status = set_forms(backend, site, s);
    if (status != TT_OK) {
        tt_free(s);
        return status;
    }
    tt_simd_channels_args a = base_args(site, s);
    a.samples = s->g.n;
    prepared_out->state = s;
    prepared_out->scratch_bytes =
        room_bytes(a.channels) + tt_simd_get()->channels->scratch_bytes(&a);
    return TT_OK;
}

// ---- scratch ----

static double *doubles(const state *s, const tt_args *args, int i)
{
    return (double *)((char *)args->scratch +
                      i * tt__round64(s->g.channels * 8));
}

static float *floats(const state *s, const tt_args *args, int i)
{
    return (float *)((char *)doubles(s, args, N_DOUBLES) +
                     i * tt__round64(s->g.channels * 4));
}

static tt_simd_channels_args args_of(const state *s, const tt_site *site,
                                     const tt_args *args)
{
    tt_simd_channels_args a = base_args(site, s);
    a.sums = doubles(s, args, SUMS);
    a.scratch = floats(s, args, N_FLOATS);
    return a;
}

static const float *as_floats(const state *s, const tt_site *site,
                              const tt_args *args, int i, int room)
{
    return tt__as_floats(site->in[i].dtype, args->in[i], s->g.channels,
                         floats(s, args, room));
}

// Bytes of an image before group g.
static int64_t offset(const state *s, const tt_site *site, int64_t g)
{
    int64_t first;
    (void)tt_batch_norm_span(&s->g, g, &first);
    return first * s->g.channels * s->g.points *
           tt_dtype_bytes(site->in[0].dtype);
}

// Image `data` from group g on; NULL stays NULL.
static const void *group_in(const state *s, const tt_site *site,
                            const void *data, int64_t g)
{
    return data == NULL ? NULL : (const char *)data + offset(s, site, g);
}

static void *group_out(const state *s, const tt_site *site, void *data,
                       int64_t g)
{
    return (char *)data + offset(s, site, g);
}

// The samples of a group that this rank has.
static void set_group(const state *s, int64_t g, tt_simd_channels_args *a)
{
    int64_t first;
    a->samples = tt_batch_norm_span(&s->g, g, &first);
}

static const void *optional(const tt_site *site, const tt_args *args, int i)
{
    return tt_site_has(site, i) ? args->in[i] : NULL;
}

// ---- forward ----

// Adds a group's mean and unbiased variance to the totals.
static void add_totals(const state *s, const tt_args *args,
                       const tt_simd_channels_args *a)
{
    double *mean = doubles(s, args, TOTALS);
    double *var = doubles(s, args, TOTALS + 1);
    const double n = a->count;
    for (int64_t c = 0; c < a->channels; c++) {
        const double shift = a->sums[c] / n;
        const double v = a->sums[a->channels + c] / n - shift * shift;
        mean[c] += ((double)a->shift[c] + shift) / s->g.whole_groups;
        var[c] += fmax(v, 0) * n / (n - 1) / s->g.whole_groups;
    }
}

// Moves the running statistics towards the totals.
static void move_running(const state *s, const tt_site *site,
                         const tt_args *args)
{
    const tt_batch_norm_params *p = site->params;
    const double by = p->momentum;
    for (int i = 0; i < 2; i++) {
        const double *total = doubles(s, args, TOTALS + i);
        const float *old = args->in[3 + i];
        float *moved = args->out[3 + i];
        for (int64_t c = 0; c < s->g.channels; c++)
            moved[c] = (float)((1 - by) * (double)old[c] + by * total[c]);
    }
}

static void clear_totals(const state *s, const tt_args *args)
{
    memset(doubles(s, args, TOTALS), 0,
           (size_t)(2 * tt__round64(s->g.channels * 8)));
}

static void apply_frozen(const state *s, const tt_site *site,
                         const tt_args *args, tt_simd_channels_args *a)
{
    const tt_batch_norm_params *p = site->params;
    const float *mean = args->in[3], *var = args->in[4];
    a->mean = floats(s, args, MEAN);
    a->rstd = floats(s, args, RSTD);
    for (int64_t c = 0; c < a->channels; c++) {
        a->mean[c] = mean[c];
        a->rstd[c] = (float)(1 / sqrt((double)var[c] + p->eps));
    }
    a->x = args->in[0];
    a->y = args->out[0];
    tt_simd_get()->channels->apply(a);
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    const state *s = kernel_state;
    const tt_batch_norm_params *p = site->params;
    tt_simd_channels_args a = args_of(s, site, args);
    a.gamma = as_floats(s, site, args, 1, GAMMA);
    a.beta = as_floats(s, site, args, 2, BETA);
    a.shift = args->in[3];
    a.residual = optional(site, args, 5);
    if (!p->training) {
        apply_frozen(s, site, args, &a);
        return TT_OK;
    }
    clear_totals(s, args);
    for (int64_t g = 0; g < s->g.groups; g++) {
        set_group(s, g, &a);
        a.x = group_in(s, site, args->in[0], g);
        a.residual = group_in(s, site, optional(site, args, 5), g);
        a.y = group_out(s, site, args->out[0], g);
        a.mean = (float *)args->out[1] + g * a.channels;
        a.rstd = (float *)args->out[2] + g * a.channels;
        tt_simd_get()->channels->train(&a);
        add_totals(s, args, &a);
    }
    move_running(s, site, args);
    return TT_OK;
}

// Where moment `i` of a row is in a pair [2, rows, channels].
static int64_t pair_at(const state *s, int i, int64_t row)
{
    return (i * s->g.rows + row) * s->g.channels;
}

// Rows of groups that are on other ranks are terms of a sum over ranks: zero here.
static void clear_pair(const state *s, float *pair)
{
    if (s->g.rows > s->g.groups)
        memset(pair, 0, (size_t)pair_at(s, 2, 0) * sizeof(float));
}

static void write_pair(const state *s, const double *sums, float *pair,
                       int64_t row)
{
    for (int i = 0; i < 2; i++)
        for (int64_t c = 0; c < s->g.channels; c++)
            pair[pair_at(s, i, row) + c] = (float)sums[i * s->g.channels + c];
}

static void read_pair(const state *s, const float *pair, int64_t row,
                      double *sums)
{
    for (int i = 0; i < 2; i++)
        for (int64_t c = 0; c < s->g.channels; c++)
            sums[i * s->g.channels + c] = (double)pair[pair_at(s, i, row) + c];
}

static tt_status run_moments(void *kernel_state, const tt_site *site,
                             const tt_args *args)
{
    const state *s = kernel_state;
    tt_simd_channels_args a = args_of(s, site, args);
    a.shift = as_floats(s, site, args, 1, MEAN);
    clear_pair(s, args->out[0]);
    for (int64_t g = 0; g < s->g.groups; g++) {
        set_group(s, g, &a);
        a.x = group_in(s, site, args->in[0], g);
        tt_simd_get()->channels->moments(&a);
        write_pair(s, a.sums, args->out[0], s->g.first_row + g);
    }
    return TT_OK;
}

static void set_statistics(const tt_simd_channels_args *a)
{
    for (int64_t c = 0; c < a->channels; c++) {
        const double shift = a->sums[c] / a->count;
        const double var = a->sums[a->channels + c] / a->count - shift * shift;
        a->mean[c] = (float)((double)a->shift[c] + shift);
        a->rstd[c] = (float)(1 / sqrt(fmax(var, 0) + a->epsilon));
    }
}

static tt_status run_apply(void *kernel_state, const tt_site *site,
                           const tt_args *args)
{
    const state *s = kernel_state;
    tt_simd_channels_args a = args_of(s, site, args);
    a.gamma = as_floats(s, site, args, 1, GAMMA);
    a.beta = as_floats(s, site, args, 2, BETA);
    a.shift = as_floats(s, site, args, 6, MEAN);
    clear_totals(s, args);
    for (int64_t row = 0; row < s->g.rows; row++) {
        const int64_t g = row - s->g.first_row;
        a.mean = (float *)args->out[1] + row * a.channels;
        a.rstd = (float *)args->out[2] + row * a.channels;
        read_pair(s, args->in[5], row, a.sums);
        set_statistics(&a);
        add_totals(s, args, &a);
        if (g < 0 || g >= s->g.groups)
            continue; // of samples on other ranks
        set_group(s, g, &a);
        a.x = group_in(s, site, args->in[0], g);
        a.residual = group_in(s, site, optional(site, args, 7), g);
        a.y = group_out(s, site, args->out[0], g);
        tt_simd_get()->channels->apply(&a);
    }
    move_running(s, site, args);
    return TT_OK;
}

// ---- backward ----

// Statistics of group g, which the gradients only read.
static void use_statistics(const state *s, const tt_args *args, int first,
                           int64_t g, tt_simd_channels_args *a)
{
    a->mean = floats(s, args, MEAN);
    a->rstd = floats(s, args, RSTD);
    const int64_t at = (s->g.first_row + g) * a->channels;
    memcpy(a->mean, (const float *)args->in[first] + at,
           (size_t)a->channels * sizeof(float));
    memcpy(a->rstd, (const float *)args->in[first + 1] + at,
           (size_t)a->channels * sizeof(float));
}

static void use_images(const state *s, const tt_site *site, const tt_args *args,
                       int mask, int64_t g, tt_simd_channels_args *a)
{
    set_group(s, g, a);
    a->x = group_in(s, site, args->in[0], g);
    a->d_y = group_in(s, site, args->in[1], g);
    a->mask = a->has_relu ? group_in(s, site, args->in[mask], g) : NULL;
}

static void add_gradients(const tt_simd_channels_args *a, double *totals[2])
{
    for (int64_t c = 0; c < a->channels; c++) {
        totals[0][c] += a->sums[c];
        totals[1][c] += a->sums[a->channels + c];
    }
}

static tt_status run_grad(void *kernel_state, const tt_site *site,
                          const tt_args *args)
{
    const state *s = kernel_state;
    const tt_batch_norm_params *p = site->params;
    double *totals[] = {doubles(s, args, TOTALS), doubles(s, args, TOTALS + 1)};
    tt_simd_channels_args a = args_of(s, site, args);
    a.gamma = as_floats(s, site, args, 2, GAMMA);
    a.is_frozen = !p->training;
    clear_totals(s, args);
    for (int64_t g = 0; g < s->g.groups; g++) {
        use_images(s, site, args, 5, g, &a);
        use_statistics(s, args, 3, g, &a);
        for (int64_t c = 0; c < a.channels && !p->training; c++)
            a.rstd[c] = (float)(1 / sqrt((double)a.rstd[c] + p->eps));
        a.d_x = group_out(s, site, args->out[0], g);
        if (p->has_residual)
            a.d_residual = group_out(s, site, args->out[3], g);
        tt_simd_get()->channels->grad(&a);
        add_gradients(&a, totals);
    }
    for (int i = 0; i < 2; i++)
        for (int64_t c = 0; c < a.channels; c++)
            ((float *)args->out[1 + i])[c] = (float)totals[i][c];
    return TT_OK;
}

static tt_status run_sums(void *kernel_state, const tt_site *site,
                          const tt_args *args)
{
    const state *s = kernel_state;
    tt_simd_channels_args a = args_of(s, site, args);
    clear_pair(s, args->out[0]);
    for (int64_t g = 0; g < s->g.groups; g++) {
        use_images(s, site, args, 4, g, &a);
        use_statistics(s, args, 2, g, &a);
        tt_simd_get()->channels->grad_sums(&a);
        write_pair(s, a.sums, args->out[0], s->g.first_row + g);
    }
    return TT_OK;
}

static tt_status run_grad_apply(void *kernel_state, const tt_site *site,
                                const tt_args *args)
{
    const state *s = kernel_state;
    const tt_batch_norm_params *p = site->params;
    tt_simd_channels_args a = args_of(s, site, args);
    a.gamma = as_floats(s, site, args, 2, GAMMA);
    for (int64_t g = 0; g < s->g.groups; g++) {
        use_images(s, site, args, 6, g, &a);
        use_statistics(s, args, 3, g, &a);
        read_pair(s, args->in[5], s->g.first_row + g, a.sums);
        a.d_x = group_out(s, site, args->out[0], g);
        if (p->has_residual)
            a.d_residual = group_out(s, site, args->out[1], g);
        tt_simd_get()->channels->grad_apply(&a);
    }
    return TT_OK;
}

const tt_kernel_def tt__cpu_batch_norm_kernels[] = {
    {TT_KERNEL(cpu, batch_norm), .in_place = true, .can = can,
     .prepare = prepare, .run = run},
    {TT_KERNEL(cpu, batch_norm_grad), .in_place = true, .can = can,
     .prepare = prepare, .run = run_grad},
    {TT_KERNEL(cpu, batch_norm_moments), .can = can, .prepare = prepare,
     .run = run_moments},
    {TT_KERNEL(cpu, batch_norm_apply), .in_place = true, .can = can,
     .prepare = prepare, .run = run_apply},
    {TT_KERNEL(cpu, batch_norm_grad_sums), .can = can, .prepare = prepare,
     .run = run_sums},
    {TT_KERNEL(cpu, batch_norm_grad_apply), .in_place = true, .can = can,
     .prepare = prepare, .run = run_grad_apply},
    {0},
};
