// dnnl_create - describes operations to oneDNN, version 2: an operation descriptor
// (dnnl_..._desc_init), a primitive descriptor from it, a primitive from that.

#include "backend/cpu/dnnl_inner.h"

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
    const tt__slot *slot;
    int n_slots;
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

// The thread count is fixed when a primitive is made.
static tt_status make(tt__dnnl *dnnl, const recipe *r, tt__prim **prim_out)
{
    dnnl_primitive_desc_t pd = NULL;
    omp_set_num_threads(r->is_serial ? 1 : dnnl->n_threads);
    tt_status status = describe(dnnl, r, &pd);
    if (status == TT_OK) {
        status = tt__prim_make(dnnl, pd, r->slot, r->n_slots, prim_out);
        (void)dnnl_primitive_desc_destroy(pd);
    }
    if (status == TT_OK)
        (*prim_out)->is_serial = r->is_serial;
    omp_set_num_threads(dnnl->n_threads);
    return status;
}

// ---- matmul ----

tt_status tt__prim_matmul(tt__dnnl *dnnl, const tt__matmul_desc *d,
                          tt__prim **prim_out)
{
    const bool has_bias = d->bias.dtype != TT_N_DTYPES;
    tt__tensor bias = d->bias;
    if (has_bias) { // [1, ..., 1, n]
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
        {has_bias ? DNNL_ARG_BIAS : 0, dnnl_query_weights_md, 1},
        {DNNL_ARG_DST, dnnl_query_dst_md, 0},
    };
    dnnl_matmul_desc_t op;
    TT_TRY(tt__dnnl_fail(
        dnnl_matmul_desc_init(&op, &a, &b, has_bias ? &v : NULL, &c),
        "a matrix product"));
    const recipe r = {.op = &op,
                      .adds = d->adds,
                      .is_serial = d->is_serial,
                      .slot = slot,
                      .n_slots = 4};
    return make(dnnl, &r, prim_out);
}
