// batch_norm, its gradient and their parts - images with their channels last. See
// dev/norm/batch_norm.cu for what bounds them.

#include "ops/nn/batch_norm.h"

#include "backend/cuda/layout.h"
#include "ops/ops.h"

typedef struct state {
    const tt__cuda_device *device;
    tt_cuda_bn_args args; // without addresses
} state;

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    if (site->op == &tt_op_batch_norm)
        return tt__site_has_types_in_layouts(site, "syyffs", "sf");
    if (site->op == &tt_op_batch_norm_moments)
        return tt__site_has_types_in_layouts(site, "sf", "f");
    if (site->op == &tt_op_batch_norm_apply)
        return tt__site_has_types_in_layouts(site, "syyffffs", "sf");
    if (site->op == &tt_op_batch_norm_grad)
        return tt__site_has_types_in_layouts(site, "ssyffs", "sffs");
    if (site->op == &tt_op_batch_norm_grad_sums)
        return tt__site_has_types_in_layouts(site, "ssffs", "f");
    return tt__site_has_types_in_layouts(site, "ssyfffs", "s");
}

// Statistics by group: in the outputs of forward operators but apply, whose input
// they are as moments, and in the inputs of gradients.
static const tt_local *statistics(const tt_site *site)
{
    const tt_batch_norm_params *p = site->params;
    if (site->op == &tt_op_batch_norm)
        return p->training ? &site->out[1].local : NULL;
    if (site->op == &tt_op_batch_norm_moments)
        return &site->out[0].local;
    if (site->op == &tt_op_batch_norm_apply)
        return &site->in[5].local;
    if (site->op == &tt_op_batch_norm_grad)
        return p->training ? &site->in[3].local : NULL;
    return &site->in[site->op == &tt_op_batch_norm_grad_sums ? 2 : 3].local;
}

static bool is_image(const tt_site *site, const tt_operand *o)
{
    return tt_shape_same_dims(&o->local.shape, &site->in[0].local.shape) &&
           o->local.shape.ndim == site->in[0].local.shape.ndim;
}

static tt_status set_forms(tt_backend *backend, tt_site *site)
{
    for (int i = 0; i < site->n_in; i++)
        if (tt_site_has(site, i) && is_image(site, &site->in[i]))
            TT_TRY(tt__cuda_channels_last(backend, &site->in[i]));
    for (int i = 0; i < site->n_out; i++)
        if (is_image(site, &site->out[i]))
            TT_TRY(tt__cuda_channels_last(backend, &site->out[i]));
    return TT_OK;
}

static tt_cuda_bn_args describe(const tt_site *site)
{
    const tt_batch_norm_params *p = site->params;
    const tt_batch_norm_geometry g =
        tt_batch_norm_geometry_of(p, &site->in[0].local, statistics(site));
    return (tt_cuda_bn_args){
        .type = site->in[0].dtype,
        .n = g.n,
        .channels = g.channels,
        .points = g.points,
        .groups = g.groups,
        .samples = g.samples,
        .before = g.before,
        .rows = g.rows,
        .first_row = g.first_row,
        .count = g.count,
        .whole_groups = g.whole_groups,
        .eps = p->eps,
        .momentum = p->momentum,
        .has_relu = p->activation == TT_BATCH_NORM_RELU,
        .has_marks = site->op == &tt_op_batch_norm_grad && !p->has_residual &&
                     p->activation == TT_BATCH_NORM_RELU,
    };
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    TT_TRY(set_forms(backend, site));
    TT_TRY(tt__cuda_state(backend, sizeof(state), prepared_out));
    state *s = prepared_out->state;
    s->args = describe(site);
    prepared_out->scratch_bytes = s->device->api->bn_scratch(&s->args);
    return TT_OK;
}

static const void *optional(const tt_site *site, const tt_args *args, int i)
{
    return tt_site_has(site, i) ? args->in[i] : NULL;
}

static tt_cuda_bn_args args_of(void *kernel_state, const tt_args *args)
{
    tt_cuda_bn_args a = ((state *)kernel_state)->args;
    a.x = args->in[0];
    a.scratch = args->scratch;
    return a;
}

// ---- forward: batch_norm, batch_norm_apply, batch_norm_moments ----

static void use_weights(const tt_site *site, const tt_args *args, int gamma,
                        tt_cuda_bn_args *a)
{
    a->gamma = args->in[gamma];
    a->gamma_type = site->in[gamma].dtype;
}

static void use_outputs(const tt_args *args, tt_cuda_bn_args *a)
{
    a->y = args->out[0];
    a->mean = args->out[1];
    a->rstd = args->out[2];
    a->new_mean = args->out[3];
    a->new_var = args->out[4];
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    const tt_batch_norm_params *p = site->params;
    tt_cuda_bn_args a = args_of(kernel_state, args);
    use_weights(site, args, 1, &a);
    a.beta = args->in[2];
    a.beta_type = site->in[2].dtype;
    a.shift = a.running_mean = args->in[3];
    a.running_var = args->in[4];
    a.is_frozen = site->op == &tt_op_batch_norm && !p->training;
    if (a.is_frozen) {
        a.mean_in = a.running_mean;
        a.rstd_in = a.running_var;
        a.y = args->out[0];
    } else {
        use_outputs(args, &a);
    }
    if (site->op == &tt_op_batch_norm_apply) {
        a.pair_in = args->in[5];
        a.shift = args->in[6];
        a.residual = optional(site, args, 7);
    } else {
        a.residual = optional(site, args, 5);
    }
    return TT__CUDA(kernel_state, bn_train, &a);
}

static tt_status run_moments(void *kernel_state, const tt_site *site,
                             const tt_args *args)
{
    (void)site;
    tt_cuda_bn_args a = args_of(kernel_state, args);
    a.shift = args->in[1];
    a.pair = args->out[0];
    return TT__CUDA(kernel_state, bn_sums, &a);
}

// ---- backward ----

// x, dy and, with an activation, y as input `mask`.
static tt_cuda_bn_args grad_args(void *kernel_state, const tt_args *args,
                                 int mask)
{
    tt_cuda_bn_args a = args_of(kernel_state, args);
    a.dy = args->in[1];
    a.mask = a.has_relu ? args->in[mask] : NULL;
    return a;
}

static tt_status run_grad(void *kernel_state, const tt_site *site,
                          const tt_args *args)
{
    const tt_batch_norm_params *p = site->params;
    tt_cuda_bn_args a = grad_args(kernel_state, args, 5);
    use_weights(site, args, 2, &a);
    a.mean_in = args->in[3];
    a.rstd_in = args->in[4];
    a.is_frozen = !p->training;
    a.y = args->out[0];
    a.dgamma = args->out[1];
    a.dbeta = args->out[2];
    a.d_residual = p->has_residual ? args->out[3] : NULL;
    return TT__CUDA(kernel_state, bn_grad, &a);
}

static tt_status run_sums(void *kernel_state, const tt_site *site,
                          const tt_args *args)
{
    (void)site;
    tt_cuda_bn_args a = grad_args(kernel_state, args, 4);
    a.mean_in = args->in[2];
    a.rstd_in = args->in[3];
    a.pair = args->out[0];
    return TT__CUDA(kernel_state, bn_sums, &a);
}

static tt_status run_grad_apply(void *kernel_state, const tt_site *site,
                                const tt_args *args)
{
    const tt_batch_norm_params *p = site->params;
    tt_cuda_bn_args a = grad_args(kernel_state, args, 6);
    use_weights(site, args, 2, &a);
    a.mean_in = args->in[3];
    a.rstd_in = args->in[4];
    a.pair_in = args->in[5];
    a.y = args->out[0];
    a.d_residual = p->has_residual ? args->out[1] : NULL;
    return TT__CUDA(kernel_state, bn_grad, &a);
}

const tt_kernel_def tt__cuda_batch_norm_kernels[] = {
    {TT_KERNEL(cuda, batch_norm), .in_place = true, .can = can,
     .prepare = prepare, .run = run},
    {TT_KERNEL(cuda, batch_norm_grad), .in_place = true, .can = can,
     .prepare = prepare, .run = run_grad},
    {TT_KERNEL(cuda, batch_norm_moments), .can = can, .prepare = prepare,
     .run = run_moments},
    {TT_KERNEL(cuda, batch_norm_apply), .in_place = true, .can = can,
     .prepare = prepare, .run = run},
    {TT_KERNEL(cuda, batch_norm_grad_sums), .can = can, .prepare = prepare,
     .run = run_sums},
    {TT_KERNEL(cuda, batch_norm_grad_apply), .in_place = true, .can = can,
     .prepare = prepare, .run = run_grad_apply},
    {0},
};
