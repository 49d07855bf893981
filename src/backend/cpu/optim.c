// optim - optimisers, in one pass over each parameter. Weight and states are updated
// where they lie. A parameter in one of the library's layouts is a vector like any
// other: its padding is zero and stays zero under every rule.

#include "ops/optim/optim.h"

#include "backend/cpu/wrap.h"
#include "base/alloc.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

typedef struct extent {
    int64_t n; // elements, with padding
    int n_state;
} extent;

// ---- forms ---------------------------------------------------------------

// Whether output i is the low copy.
static bool is_low(const tt_site *site, int i)
{
    return i == 1 + tt_optim_n_state(site->op);
}

// Inputs that are as large as the weight.
static bool is_large(const tt_site *site, int i)
{
    return i <= TT_OPTIM_G || (i >= TT_OPTIM_STATE &&
                               i < TT_OPTIM_STATE + tt_optim_n_state(site->op));
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    for (int i = 0; i < site->n_in; i++)
        if (is_large(site, i) && site->in[i].dtype != TT_F32)
            return false;
    for (int i = 0; i < site->n_out; i++)
        if (site->out[i].dtype != (is_low(site, i) ? TT_BF16 : TT_F32))
            return false;
    return true;
}

// All operands must be in the same order of elements. That is the weight's, since
// kernels read the weight. With a low copy kernels read the copy; then all follow the
// gradient's order, and the copy is written in it.
static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    const int low = is_low(site, site->n_out - 1) ? site->n_out - 1 : -1;
    const tt_operand *w = &site->in[TT_OPTIM_W];
    const int32_t layout = low >= 0 ? site->in[TT_OPTIM_G].layout : w->layout;
    for (int i = 0; i < site->n_in; i++) {
        if (is_large(site, i))
            tt__operand_set_layout(&site->in[i], layout);
        else if (tt_site_has(site, i))
            tt_operand_set_dense(&site->in[i]);
    }
    for (int i = 0; i < site->n_out; i++)
        tt__operand_set_layout(&site->out[i], layout);
    if (low >= 0)
        TT_TRY(tt__dnnl_layout_retype(tt__cpu_dnnl(backend), layout, TT_BF16,
                                      &site->out[low].layout));
    extent *s = tt_alloc(sizeof(*s));
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: no memory for a kernel",
                       site->op->name);
    s->n = tt_target_bytes(&backend->target, w) / tt_dtype_bytes(w->dtype);
    s->n_state = tt_optim_n_state(site->op);
    prepared_out->state = s;
    return TT_OK;
}

// ---- running -------------------------------------------------------------

static void copy(const void *from, void *to, int64_t n)
{
    if (from != to)
        tt_simd_get()->elementwise->cast(TT_SIMD_F32, from, TT_SIMD_F32, to, n);
}

// The low copy, or NULL.
static uint16_t *low_of(const tt_site *site, const tt_args *args)
{
    return is_low(site, site->n_out - 1) ? args->out[site->n_out - 1] : NULL;
}

// Outputs get the old values, which the update then changes in place.
static tt_simd_optimizer_args describe(const extent *s, const tt_site *site,
                                       const tt_args *args)
{
    const tt_optim_params *p = site->params;
    tt_simd_optimizer_args a = {
        .n = s->n,
        .w = args->out[0],
        .g = args->in[TT_OPTIM_G],
        .grad_scale = (float)tt__scalar_of(site, args, TT_OPTIM_SCALE),
        .w_bf16 = low_of(site, args),
        .step = (int64_t)tt__scalar_of(site, args, TT_OPTIM_STEP),
        .lr = tt__scalar_of(site, args, TT_OPTIM_LR),
        .weight_decay = p->weight_decay,
        .epsilon = p->eps,
        .beta1 = p->beta1,
        .beta2 = p->beta2,
        .momentum = p->momentum,
        .dampening = p->dampening,
        .is_nesterov = p->nesterov,
        .alpha = p->alpha,
        .lr_decay = p->lr_decay,
        .trust = 1,
    };
    for (int k = 0; k < s->n_state; k++)
        copy(args->in[TT_OPTIM_STATE + k], args->out[1 + k], s->n);
    return a;
}

// Whether the update is left out; the outputs are complete then.
static bool skips(const extent *s, const tt_site *site, const tt_args *args,
                  int skip)
{
    copy(args->in[TT_OPTIM_W], args->out[0], s->n);
    if (tt__scalar_of(site, args, skip) == 0)
        return false;
    for (int k = 0; k < s->n_state; k++)
        copy(args->in[TT_OPTIM_STATE + k], args->out[1 + k], s->n);
    if (low_of(site, args) != NULL)
        tt_simd_get()->elementwise->cast(
            TT_SIMD_F32, args->out[0], TT_SIMD_BF16, low_of(site, args), s->n);
    return true;
}

// m, v: which state is the function's m, and which its v; -1: none.
static tt_status update(const extent *s, const tt_site *site,
                        const tt_args *args, tt_simd_optimizer_fn *fn, int m,
                        int v)
{
    if (skips(s, site, args, TT_OPTIM_SKIP))
        return TT_OK;
    tt_simd_optimizer_args a = describe(s, site, args);
    a.m = m < 0 ? NULL : args->out[1 + m];
    a.v = v < 0 ? NULL : args->out[1 + v];
    fn(&a);
    return TT_OK;
}

static const tt_simd_optimizer *simd(void)
{
    return tt_simd_get()->optimizer;
}

TT_KERNEL_RUN(run_sgd, update(state, site, args, simd()->sgd, -1, -1))
TT_KERNEL_RUN(run_momentum, update(state, site, args, simd()->sgd, 0, -1))
TT_KERNEL_RUN(run_adagrad, update(state, site, args, simd()->adagrad, -1, 0))
TT_KERNEL_RUN(run_rmsprop, update(state, site, args, simd()->rmsprop, -1, 0))
TT_KERNEL_RUN(run_adam, update(state, site, args, simd()->adam, 0, 1))
TT_KERNEL_RUN(run_adamw, update(state, site, args, simd()->adamw, 0, 1))
TT_KERNEL_RUN(run_yogi, update(state, site, args, simd()->yogi, 0, 1))

static tt_status run_lars(void *kernel_state, const tt_site *site,
                          const tt_args *args)
{
    const extent *s = kernel_state;
    const tt_optim_params *p = site->params;
    if (skips(s, site, args, TT_OPTIM_SKIP))
        return TT_OK;
    tt_simd_optimizer_args a = describe(s, site, args);
    a.m = args->out[1];
    if (p->adapt) {
        const double w = sqrt(tt__scalar_of(site, args, TT_OPTIM_STATE + 1));
        const double g = sqrt(tt__scalar_of(site, args, TT_OPTIM_STATE + 2)) *
                         tt__scalar_of(site, args, TT_OPTIM_SCALE);
        if (w > 0 && g > 0)
            a.trust = p->trust * w / (g + p->weight_decay * w + p->eps);
    }
    tt_simd_get()->optimizer->lars(&a);
    return TT_OK;
}

// Output 0 is the update; the weight is only read.
static tt_status run_lamb_update(void *kernel_state, const tt_site *site,
                                 const tt_args *args)
{
    const extent *s = kernel_state;
    if (skips(s, site, args, TT_OPTIM_SKIP))
        return TT_OK;
    tt_simd_optimizer_args a = describe(s, site, args);
    a.m = args->out[1];
    a.v = args->out[2];
    a.update = args->out[0];
    tt_simd_get()->optimizer->lamb_update(&a);
    return TT_OK;
}

// (w, update, lr, skip, [|w|^2, |update|^2])
static tt_status run_lamb(void *kernel_state, const tt_site *site,
                          const tt_args *args)
{
    const extent *s = kernel_state;
    const tt_optim_params *p = site->params;
    if (skips(s, site, args, 3))
        return TT_OK;
    tt_simd_optimizer_args a = {
        .n = s->n,
        .w = args->out[0],
        .update = (float *)(uintptr_t)args->in[1],
        .w_bf16 = low_of(site, args),
        .lr = tt__scalar_of(site, args, 2),
        .trust = 1,
    };
    if (p->adapt) {
        const double w = sqrt(tt__scalar_of(site, args, 4));
        const double u = sqrt(tt__scalar_of(site, args, 5));
        a.trust = w > 0 && u > 0 ? w / u : 1;
    }
    tt_simd_get()->optimizer->lamb_apply(&a);
    return TT_OK;
}

const tt_kernel_def tt__cpu_optim_kernels[] = {
    {TT_KERNEL(cpu, sgd), .can = can, .prepare = prepare, .run = run_sgd},
    {TT_KERNEL(cpu, momentum), .can = can, .prepare = prepare,
     .run = run_momentum},
    {TT_KERNEL(cpu, adagrad), .can = can, .prepare = prepare,
     .run = run_adagrad},
    {TT_KERNEL(cpu, rmsprop), .can = can, .prepare = prepare,
     .run = run_rmsprop},
    {TT_KERNEL(cpu, adam), .can = can, .prepare = prepare, .run = run_adam},
    {TT_KERNEL(cpu, adamw), .can = can, .prepare = prepare, .run = run_adamw},
    {TT_KERNEL(cpu, yogi), .can = can, .prepare = prepare, .run = run_yogi},
    {TT_KERNEL(cpu, lars), .can = can, .prepare = prepare, .run = run_lars},
    {TT_KERNEL(cpu, lamb_update), .can = can, .prepare = prepare,
     .run = run_lamb_update},
    {TT_KERNEL(cpu, lamb), .can = can, .prepare = prepare, .run = run_lamb},
    {0},
};
