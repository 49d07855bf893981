// dnnl_create - describes operations to oneDNN, version 2: an operation descriptor
// (dnnl_..._desc_init), a primitive descriptor from it, a primitive from that. A format
// that is left open (`any`) is chosen by the library when the primitive descriptor is
// made, and read back from it.

#include "backend/cpu/dnnl/dnnl_inner.h"

#include <omp.h>
#include <string.h>

#if DNNL_VERSION_MAJOR != 2
#    error "oneDNN 2 is needed; version 3 describes operations in another way"
#endif

// Attributes: scratch memory comes from the caller; maybe the result is added.
static tt_status make_attr(bool adds, dnnl_primitive_attr_t *attr_out)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t post = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(
            attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && adds) {
        status = dnnl_post_ops_create(&post);
        if (status == dnnl_success)
            status = dnnl_post_ops_append_sum(post, 1.0f);
        if (status == dnnl_success)
            status = dnnl_primitive_attr_set_post_ops(attr, post);
    }
    if (post != NULL)
        (void)dnnl_post_ops_destroy(post);
    if (status != dnnl_success) {
        if (attr != NULL)
            (void)dnnl_primitive_attr_destroy(attr);
        return tt__dnnl_fail(status, "attributes");
    }
    *attr_out = attr;
    return TT_OK;
}

typedef struct recipe {
    const_dnnl_op_desc_t op;
    const_dnnl_primitive_desc_t hint; // of the forward operation; or NULL
    const char *name_part; // wanted in the implementation's name; or NULL
    bool adds, is_serial;
    tt__slots slots;
} recipe;

static tt_status next_match(dnnl_primitive_desc_iterator_t it,
                            const char *name_part,
                            dnnl_primitive_desc_t *pd_out)
{
    for (;;) {
        const char *name = "";
        dnnl_primitive_desc_t pd = dnnl_primitive_desc_iterator_fetch(it);
        if (pd == NULL)
            return TT_ERR_UNSUPPORTED;
        (void)dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
        if (name_part == NULL || strstr(name, name_part) != NULL) {
            *pd_out = pd;
            return TT_OK;
        }
        (void)dnnl_primitive_desc_destroy(pd);
        if (dnnl_primitive_desc_iterator_next(it) != dnnl_success)
            return TT_ERR_UNSUPPORTED;
    }
}

static tt_status describe(tt__dnnl *dnnl, const recipe *r,
                          dnnl_primitive_desc_t *pd_out)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_iterator_t it = NULL;
    TT_TRY(make_attr(r->adds, &attr));
    const dnnl_status_t made = dnnl_primitive_desc_iterator_create(
        &it, r->op, attr, dnnl->engine, r->hint);
    tt_status status = made == dnnl_iterator_ends
                           ? TT_ERR_UNSUPPORTED
                           : tt__dnnl_fail(made, "an operation");
    if (status == TT_OK) {
        status = next_match(it, r->name_part, pd_out);
        (void)dnnl_primitive_desc_iterator_destroy(it);
    }
    (void)dnnl_primitive_attr_destroy(attr);
    return status;
}

// oneDNN fixes a primitive's thread count when it is made, from OpenMP's setting. So
// that setting is changed around the call for a primitive of one thread.
static tt_status make(tt__dnnl *dnnl, const recipe *r, tt__prim **prim_out)
{
    dnnl_primitive_desc_t pd = NULL;
    omp_set_num_threads(r->is_serial ? 1 : dnnl->n_threads);
    tt_status status = describe(dnnl, r, &pd);
    if (status == TT_OK) {
        status = tt__prim_make(dnnl, pd, &r->slots, prim_out);
        (void)dnnl_primitive_desc_destroy(pd);
    }
    if (status == TT_OK) {
        (*prim_out)->is_serial = r->is_serial;
        (*prim_out)->adds = r->adds;
    }
    omp_set_num_threads(dnnl->n_threads);
    return status;
}

// ---- matmul ----

tt_status tt__prim_matmul(tt__dnnl *dnnl, const tt__matmul_desc *d,
                          tt__prim **prim_out)
{
    tt__dnnl_tensor bias = d->bias;
    if (bias.ndim > 0) { // [1, ..., 1, n]
        for (int i = 0; i < d->c.ndim; i++) {
            bias.dims[i] = 1;
            bias.stride[i] = d->bias.dims[0];
        }
        bias.ndim = d->c.ndim;
        bias.dims[bias.ndim - 1] = d->bias.dims[0];
        bias.stride[bias.ndim - 1] = 1;
    }
    const dnnl_memory_desc_t a = tt__dnnl_md(dnnl, &d->a);
    const dnnl_memory_desc_t b = tt__dnnl_md(dnnl, &d->b);
    const dnnl_memory_desc_t v = tt__dnnl_md(dnnl, &bias);
    const dnnl_memory_desc_t c = tt__dnnl_md(dnnl, &d->c);
    const tt__slot slot[] = {
        {DNNL_ARG_SRC, dnnl_query_src_md, 0},
        {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
        {DNNL_ARG_BIAS, dnnl_query_weights_md, 1},
        {DNNL_ARG_DST, dnnl_query_dst_md, 0},
    };
    dnnl_matmul_desc_t op;
    TT_TRY(tt__dnnl_fail(dnnl_matmul_desc_init(&op, &a, &b, &v, &c),
                         "a matrix product"));
    const recipe r = {.op = &op,
                      .adds = d->adds,
                      .is_serial = d->is_serial,
                      .slots = {slot, {&d->a, &d->b, &bias, &d->c}, 4}};
    return make(dnnl, &r, prim_out);
}

// ---- convolution ----

typedef struct window {
    dnnl_dims_t stride, dilation, pad_lo, pad_hi, kernel;
} window;

static window window_of(const tt__conv_window *from)
{
    window w = {0};
    for (int d = 0; d < from->n; d++) {
        w.kernel[d] = from->kernel[d];
        w.stride[d] = from->stride[d];
        w.dilation[d] = from->dilation[d] - 1; // the library counts gaps
        w.pad_lo[d] = from->pad_lo[d];
        w.pad_hi[d] = from->pad_hi[d];
    }
    return w;
}

static dnnl_alg_kind_t conv_algorithm(tt__conv_kind kind)
{
    return kind == TT__CONV_WINOGRAD ? dnnl_convolution_winograd
           : kind == TT__CONV_AUTO   ? dnnl_convolution_auto
                                     : dnnl_convolution_direct;
}

static tt_status describe_conv(tt__dnnl *dnnl, const tt__cpu_conv_desc *d,
                               tt__conv_pass way, dnnl_convolution_desc_t *op)
{
    const dnnl_memory_desc_t x = tt__dnnl_md(dnnl, &d->x);
    const dnnl_memory_desc_t w = tt__dnnl_md(dnnl, &d->w);
    const dnnl_memory_desc_t y = tt__dnnl_md(dnnl, &d->y);
    const dnnl_memory_desc_t b = tt__dnnl_md(dnnl, &d->bias);
    const dnnl_alg_kind_t alg = conv_algorithm(d->kind);
    const window s = window_of(&d->window);
    dnnl_status_t status;
    if (way == TT__FORWARD)
        status = dnnl_dilated_convolution_forward_desc_init(
            op, dnnl_forward_training, alg, &x, &w, &b, &y, s.stride,
            s.dilation, s.pad_lo, s.pad_hi);
    else if (way == TT__GRAD_X)
        status = dnnl_dilated_convolution_backward_data_desc_init(
            op, alg, &x, &w, &y, s.stride, s.dilation, s.pad_lo, s.pad_hi);
    else
        status = dnnl_dilated_convolution_backward_weights_desc_init(
            op, alg, &x, &w, &b, &y, s.stride, s.dilation, s.pad_lo, s.pad_hi);
    return tt__dnnl_fail(status, "a convolution");
}

// oneDNN wants the descriptor of the forward operation as a hint for a gradient. Its
// formats are left open, so that they do not constrain the gradient's.
static tt_status forward_hint(tt__dnnl *dnnl, const tt__cpu_conv_desc *d,
                              dnnl_primitive_desc_t *pd_out)
{
    tt__cpu_conv_desc free = *d;
    dnnl_convolution_desc_t op;
    free.x.layout = free.w.layout = free.y.layout = TT__ANY;
    free.w.dtype = free.x.dtype; // weight gradients may be wider
    TT_TRY(describe_conv(dnnl, &free, TT__FORWARD, &op));
    const recipe r = {.op = &op};
    return describe(dnnl, &r, pd_out);
}

tt_status tt__prim_conv(tt__dnnl *dnnl, const tt__cpu_conv_desc *d,
                        tt__prim **prim_out)
{
    static const tt__slot slots[][TT__MAX_SLOTS] = {
        [TT__FORWARD] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                         {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
                         {DNNL_ARG_BIAS, dnnl_query_weights_md, 1},
                         {DNNL_ARG_DST, dnnl_query_dst_md, 0}},
        [TT__GRAD_X] = {{DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0},
                        {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0},
                        {0, dnnl_query_undef, 0},
                        {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0}},
        [TT__GRAD_W] = {{DNNL_ARG_SRC, dnnl_query_src_md, 0},
                        {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, 0},
                        {0, dnnl_query_undef, 0},
                        {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0}},
    };
    dnnl_primitive_desc_t hint = NULL;
    dnnl_convolution_desc_t op;
    // There is none for bf16, and there must not be one where bf16 is widened.
    if (d->kind == TT__CONV_WINOGRAD && d->x.dtype == TT_BF16)
        return TT_ERR_UNSUPPORTED;
    TT_TRY(describe_conv(dnnl, d, d->way, &op));
    if (d->way != TT__FORWARD)
        TT_TRY(forward_hint(dnnl, d, &hint));
    const recipe r = {.op = &op,
                      .hint = hint,
                      .name_part = d->kind == TT__CONV_GEMM ? "gemm" : NULL,
                      .is_serial = d->is_serial,
                      .slots = {slots[d->way],
                                {&d->x, &d->w, &d->bias, &d->y},
                                TT__MAX_SLOTS}};
    const tt_status status = make(dnnl, &r, prim_out);
    if (hint != NULL)
        (void)dnnl_primitive_desc_destroy(hint);
    return status;
}

// ---- pooling ----

static tt_status describe_pool(tt__dnnl *dnnl, const tt__pool_desc *d,
                               tt__conv_pass way, dnnl_pooling_v2_desc_t *op)
{
    static const dnnl_alg_kind_t kinds[] = {
        [TT__POOL_MAX] = dnnl_pooling_max,
        [TT__POOL_AVG] = dnnl_pooling_avg_exclude_padding,
        [TT__POOL_AVG_PADDED] = dnnl_pooling_avg_include_padding,
    };
    const dnnl_memory_desc_t x = tt__dnnl_md(dnnl, &d->x);
    const dnnl_memory_desc_t y = tt__dnnl_md(dnnl, &d->y);
    const window s = window_of(&d->window);
    dnnl_status_t status;
    if (way == TT__FORWARD)
        status = dnnl_pooling_v2_forward_desc_init(
            op, dnnl_forward_training, kinds[d->kind], &x, &y, s.stride,
            s.kernel, s.dilation, s.pad_lo, s.pad_hi);
    else
        status = dnnl_pooling_v2_backward_desc_init(
            op, kinds[d->kind], &x, &y, s.stride, s.kernel, s.dilation,
            s.pad_lo, s.pad_hi);
    return tt__dnnl_fail(status, "pooling");
}

static tt_status pool_hint(tt__dnnl *dnnl, const tt__pool_desc *d,
                           dnnl_primitive_desc_t *pd_out)
{
    dnnl_pooling_v2_desc_t op;
    TT_TRY(describe_pool(dnnl, d, TT__FORWARD, &op));
    const recipe r = {.op = &op};
    return describe(dnnl, &r, pd_out);
}

tt_status tt__prim_pool(tt__dnnl *dnnl, const tt__pool_desc *d,
                        tt__prim **prim_out)
{
    const bool is_forward = d->way == TT__FORWARD;
    const bool has_where = d->kind == TT__POOL_MAX;
    const tt__slot slot[] = {
        {is_forward ? DNNL_ARG_SRC : DNNL_ARG_DIFF_SRC,
         is_forward ? dnnl_query_src_md : dnnl_query_diff_src_md, 0},
        {is_forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST,
         is_forward ? dnnl_query_dst_md : dnnl_query_diff_dst_md, 0},
        {has_where ? DNNL_ARG_WORKSPACE : 0, dnnl_query_workspace_md, 0},
    };
    dnnl_primitive_desc_t hint = NULL;
    dnnl_pooling_v2_desc_t op;
    TT_TRY(describe_pool(dnnl, d, d->way, &op));
    if (!is_forward)
        TT_TRY(pool_hint(dnnl, d, &hint));
    const recipe r = {
        .op = &op, .hint = hint, .slots = {slot, {&d->x, &d->y, NULL}, 3}};
    const tt_status status = make(dnnl, &r, prim_out);
    if (hint != NULL)
        (void)dnnl_primitive_desc_destroy(hint);
    return status;
}

// ---- reorder ----

tt_status tt__prim_reorder(tt__dnnl *dnnl, const tt__dnnl_tensor *from,
                           const tt__dnnl_tensor *to, tt__prim **prim_out)
{
    static const tt__slot slot[] = {{DNNL_ARG_FROM, dnnl_query_src_md, 0},
                                    {DNNL_ARG_TO, dnnl_query_dst_md, 0}};
    const dnnl_memory_desc_t a = tt__dnnl_md(dnnl, from);
    const dnnl_memory_desc_t b = tt__dnnl_md(dnnl, to);
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    TT_TRY(make_attr(false, &attr));
    tt_status status =
        tt__dnnl_fail(dnnl_reorder_primitive_desc_create(
                          &pd, &a, dnnl->engine, &b, dnnl->engine, attr),
                      "a conversion");
    if (status == TT_OK) {
        status = tt__prim_make(dnnl, pd, &(tt__slots){slot, {from, to}, 2},
                               prim_out);
        (void)dnnl_primitive_desc_destroy(pd);
    }
    (void)dnnl_primitive_attr_destroy(attr);
    return status;
}
