// reorder - between strides and layouts of oneDNN, or between two such layouts. The
// weights of a grouped convolution have a dimension more in their layout.

#include "backend/cpu/cpu.h"
#include "ops/ops.h"

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    const tt_operand *x = &site->in[0], *y = &site->out[0];
    return x->layout > 0 || y->layout > 0;
}

// A plain operand, with the extents that the other side's layout has.
static tt__dnnl_tensor tensor_beside(const tt__dnnl *dnnl, const tt_operand *o,
                                     const tt_operand *other)
{
    tt__dnnl_tensor t = tt__dnnl_tensor_of(o);
    if (o->layout == 0 && tt__dnnl_layout_ndim(dnnl, other->layout) > t.ndim)
        tt__dnnl_tensor_group(&t, tt__dnnl_layout_dim(dnnl, other->layout, 0));
    return t;
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    tt__dnnl *dnnl = tt__cpu_dnnl(backend);
    const tt__dnnl_tensor x = tensor_beside(dnnl, &site->in[0], &site->out[0]);
    const tt__dnnl_tensor y = tensor_beside(dnnl, &site->out[0], &site->in[0]);
    tt__prim *prim = NULL;
    TT_TRY(tt__prim_reorder(dnnl, &x, &y, &prim));
    prepared_out->state = prim;
    prepared_out->scratch_bytes = tt__prim_scratch_bytes(prim);
    return TT_OK;
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    (void)site;
    const void *data[] = {args->in[0], args->out[0]};
    return tt__prim_run(state, data, args->scratch);
}

static void release(void *state)
{
    tt__prim_destroy(state);
}

const tt_kernel_def tt__cpu_reorder_kernels[] = {
    {TT_KERNEL(cpu, reorder), .strided_in = 1, .strided_out = 1, .can = can,
     .prepare = prepare, .run = run, .release = release},
    {0},
};
