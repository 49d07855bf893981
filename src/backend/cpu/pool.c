// Pooling and its gradients - through oneDNN.
//
// Max pooling's second output says where each maximum was. It is the library's own
// format: the position inside of the window, a byte each, in the layout of y. The
// gradient must therefore see the same geometry as the forward pass. Adaptive pooling
// is average pooling when all windows have the same size.

#include "ops/nn/pool.h"

#include "backend/cpu/conv_parts.h"
#include "backend/cpu/cpu.h"
#include "ops/ops.h"

static void release(void *state)
{
    tt__prim_destroy(state);
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__cpu_is_fast(site->in[0].dtype);
}

// ---- forms ----

// Both images have their channels in the same blocks. An image of a single point is
// plain instead, which is the same memory.
static tt_status set_form(tt_backend *backend, tt_operand *o, int64_t block,
                          tt__dnnl_tensor *t)
{
    tt__dnnl_tensor any = tt__dnnl_tensor_any(o);
    TT_TRY(tt__dnnl_layout_of_blocks(tt__cpu_dnnl(backend), &any, block,
                                     &any.layout));
    tt__operand_set_layout(o, any.layout);
    *t = tt__dnnl_tensor_of(o);
    int64_t points = 1;
    for (int d = 2; d < t->ndim; d++)
        points *= t->dims[d];
    if (points == 1 && t->dims[1] % block == 0)
        tt_operand_set_dense(o);
    return TT_OK;
}

static bool is_point(const tt_operand *o)
{
    return tt_operand_count(o) == tt_operand_dim(o, 0) * tt_operand_dim(o, 1);
}

// The channel block of an operand that is given. A plain image of a single point counts
// as blocked too, since that is the same memory. 0: none that the library takes.
static int64_t block_of(const tt_backend *backend, const tt_operand *o)
{
    const int64_t best = tt__dnnl_channel_block();
    if (o->layout == 0 && is_point(o) && tt_operand_dim(o, 1) % best == 0)
        return best;
    return tt__dnnl_layout_channel_block(tt__cpu_dnnl(backend), o->layout);
}

static tt_status create(tt_backend *backend, const tt__pool_desc *d,
                        tt_prepared *prepared_out)
{
    tt__prim *prim = NULL;
    TT_TRY(tt__prim_pool(tt__cpu_dnnl(backend), d, &prim));
    prepared_out->state = prim;
    prepared_out->scratch_bytes = tt__prim_scratch_bytes(prim);
    return TT_OK;
}

// Makes the primitive. `from` is given and decides the layout, `to` is the result. For
// the gradient they are y and x of the forward operation.
static tt_status prepare(tt_backend *backend, tt__pool_desc *d,
                         tt_operand *from, tt_operand *to,
                         tt_prepared *prepared_out)
{
    const bool is_forward = d->way == TT__FORWARD;
    const int64_t block = block_of(backend, from);
    if (block == 0)
        return TT_ERR_UNSUPPORTED;
    TT_TRY(set_form(backend, from, block, is_forward ? &d->x : &d->y));
    TT_TRY(set_form(backend, to, block, is_forward ? &d->y : &d->x));
    return create(backend, d, prepared_out);
}

static tt_status describe(const tt_pool_params *p, const tt_operand *x,
                          const tt_operand *y, tt__pool_desc *d)
{
    tt_slide slide[TT_MAX_SPATIAL];
    tt_pool_slides(p, &x->local, &y->local, slide);
    return tt__window_of(slide, x->local.shape.ndim - 2, &d->window)
               ? TT_OK
               : TT_ERR_UNSUPPORTED;
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    const void *data[] = {args->in[0], args->out[0],
                          site->n_out > 1 ? args->out[1] : NULL};
    return tt__prim_run(state, data, args->scratch);
}

// ---- max ----

enum { MAX_VOLUME = 254 }; // above this the library's positions are not bytes

static tt_status describe_max(const tt_site *site, const tt_operand *x,
                              const tt_operand *y, tt__pool_desc *d)
{
    TT_TRY(describe(site->params, x, y, d));
    int64_t volume = 1;
    for (int i = 0; i < d->window.n; i++)
        volume *= d->window.kernel[i];
    return volume <= MAX_VOLUME ? TT_OK : TT_ERR_UNSUPPORTED;
}

static tt_status prepare_max(tt_backend *backend, tt_site *site,
                             tt_prepared *prepared_out)
{
    tt__pool_desc d = {.way = TT__FORWARD, .kind = TT__POOL_MAX};
    TT_TRY(describe_max(site, &site->in[0], &site->out[0], &d));
    TT_TRY(prepare(backend, &d, &site->in[0], &site->out[0], prepared_out));
    tt__operand_set_layout(
        &site->out[1], tt__prim_layout(prepared_out->state, TT__POOL_WHERE));
    return TT_OK;
}

// max_pool_grad(dy, where, ~x)
static tt_status prepare_max_grad(tt_backend *backend, tt_site *site,
                                  tt_prepared *prepared_out)
{
    tt__pool_desc d = {.way = TT__GRAD_X, .kind = TT__POOL_MAX};
    TT_TRY(describe_max(site, &site->out[0], &site->in[0], &d));
    // As the forward operation had it: that is how `where` lies.
    const int64_t block = tt__dnnl_layout_channel_block(tt__cpu_dnnl(backend),
                                                        site->in[1].layout);
    if (block == 0)
        return TT_ERR_UNSUPPORTED;
    TT_TRY(set_form(backend, &site->in[0], block, &d.y));
    TT_TRY(set_form(backend, &site->out[0], block, &d.x));
    TT_TRY(create(backend, &d, prepared_out));
    tt__operand_set_layout(
        &site->in[1], tt__prim_layout(prepared_out->state, TT__POOL_WHERE));
    return TT_OK;
}

static tt_status run_max_grad(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)site;
    const void *data[] = {args->out[0], args->in[0], args->in[1]};
    return tt__prim_run(state, data, args->scratch);
}

// ---- average ----

static tt__pool_kind average_kind(const tt_pool_params *p)
{
    return p->count_pad ? TT__POOL_AVG_PADDED : TT__POOL_AVG;
}

static tt_status prepare_avg(tt_backend *backend, tt_site *site,
                             tt_prepared *prepared_out)
{
    tt__pool_desc d = {TT__FORWARD, average_kind(site->params)};
    TT_TRY(describe(site->params, &site->in[0], &site->out[0], &d));
    return prepare(backend, &d, &site->in[0], &site->out[0], prepared_out);
}

static tt_status prepare_avg_grad(tt_backend *backend, tt_site *site,
                                  tt_prepared *prepared_out)
{
    tt__pool_desc d = {TT__GRAD_X, average_kind(site->params)};
    TT_TRY(describe(site->params, &site->out[0], &site->in[0], &d));
    return prepare(backend, &d, &site->in[0], &site->out[0], prepared_out);
}

static tt_status run_grad(void *state, const tt_site *site, const tt_args *args)
{
    (void)site;
    const void *data[] = {args->out[0], args->in[0], NULL};
    return tt__prim_run(state, data, args->scratch);
}

// ---- adaptive ----

// All of space is here, not a rank's part of it.
static bool is_whole(const tt_operand *x)
{
    const tt_shape *shape = &x->local.shape;
    for (int f = shape->first[2]; f < shape->n_factors; f++)
        if (shape->factor[f].size != x->local.global[f])
            return false;
    return true;
}

// Windows of equal size side by side.
static tt_status describe_adaptive(const tt_operand *x, const tt_operand *y,
                                   tt__pool_desc *d)
{
    d->window.n = x->local.shape.ndim - 2;
    if (!is_whole(x) || !is_whole(y))
        return TT_ERR_UNSUPPORTED;
    for (int i = 0; i < d->window.n; i++) {
        const int64_t in = tt_operand_dim(x, 2 + i);
        const int64_t out = tt_operand_dim(y, 2 + i);
        if (in % out != 0)
            return TT_ERR_UNSUPPORTED;
        d->window.kernel[i] = d->window.stride[i] = in / out;
        d->window.dilation[i] = 1;
    }
    return TT_OK;
}

static tt_status prepare_adaptive(tt_backend *backend, tt_site *site,
                                  tt_prepared *prepared_out)
{
    tt__pool_desc d = {TT__FORWARD, TT__POOL_AVG};
    TT_TRY(describe_adaptive(&site->in[0], &site->out[0], &d));
    return prepare(backend, &d, &site->in[0], &site->out[0], prepared_out);
}

static tt_status prepare_adaptive_grad(tt_backend *backend, tt_site *site,
                                       tt_prepared *prepared_out)
{
    tt__pool_desc d = {TT__GRAD_X, TT__POOL_AVG};
    TT_TRY(describe_adaptive(&site->out[0], &site->in[0], &d));
    return prepare(backend, &d, &site->in[0], &site->out[0], prepared_out);
}

const tt_kernel_def tt__cpu_pool_kernels[] = {
    {TT_KERNEL(cpu, max_pool), .can = can, .prepare = prepare_max, .run = run,
     .release = release},
    {TT_KERNEL(cpu, max_pool_grad), .can = can, .prepare = prepare_max_grad,
     .run = run_max_grad, .release = release},
    {TT_KERNEL(cpu, avg_pool), .can = can, .prepare = prepare_avg, .run = run,
     .release = release},
    {TT_KERNEL(cpu, avg_pool_grad), .can = can, .prepare = prepare_avg_grad,
     .run = run_grad, .release = release},
    {TT_KERNEL(cpu, adaptive_avg_pool), .can = can, .prepare = prepare_adaptive,
     .run = run, .release = release},
    {TT_KERNEL(cpu, adaptive_avg_pool_grad), .can = can,
     .prepare = prepare_adaptive_grad, .run = run_grad, .release = release},
    {0},
};
