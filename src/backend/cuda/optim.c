// optim - optimisers and averages of f32 weights (the masters), with a copy of the
// weight in 16 bits where products read it so. Bound by memory bandwidth: every state
// is read and written once. The plug-in batches the updates of many weights into one
// launch.

#include "ops/optim/optim.h"

#include "backend/cuda/layout.h"
#include "base/rng.h"
#include "ops/ops.h"

#include <string.h>

static tt_cuda_rule rule_of(const tt_op_def *op)
{
    const struct {
        const tt_op_def *op;
        tt_cuda_rule rule;
    } rules[] = {
        {&tt_op_sgd, TT_CUDA_SGD},
        {&tt_op_momentum, TT_CUDA_MOMENTUM},
        {&tt_op_adagrad, TT_CUDA_ADAGRAD},
        {&tt_op_rmsprop, TT_CUDA_RMSPROP},
        {&tt_op_adam, TT_CUDA_ADAM},
        {&tt_op_adamw, TT_CUDA_ADAMW},
        {&tt_op_lars, TT_CUDA_LARS},
        {&tt_op_lamb_update, TT_CUDA_LAMB_UPDATE},
        {&tt_op_lamb, TT_CUDA_LAMB},
        {&tt_op_ema, TT_CUDA_EMA},
    };
    int i = 0;
    while (rules[i].op != op)
        i++;
    return rules[i].rule;
}

// The outputs: as many f32 as there are, then the copy in 16 bits.
static bool outputs_fit(const tt_site *site, int n_wide)
{
    for (int i = 0; i < site->n_out; i++)
        if (i < n_wide ? site->out[i].dtype != TT_F32
                       : !tt__is_low(site->out[i].dtype))
            return false;
    return site->n_out <= n_wide + 1;
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types_in_layouts(site, "ffffIuf", "y") &&
           outputs_fit(site, 1 + tt_optim_n_state(site->op));
}

// A weight in bf16 alone, whose part of the whole is a run.
static bool can_random(const tt_backend *backend, const tt_site *site)
{
    const tt_optim_params *p = site->params;
    const tt_local *w = &site->in[TT_OPTIM_W].local;
    const int64_t n = tt_operand_count(&site->in[TT_OPTIM_W]);
    (void)backend;
    return p->is_random && tt__site_has_types(site, "bfffIuf", "y") &&
           site->n_out == 3 && site->out[0].dtype == TT_BF16 &&
           site->out[1].dtype == TT_F32 && site->out[2].dtype == TT_F32 &&
           tt_local_to_global(w, n - 1) - tt_local_to_global(w, 0) == n - 1;
}

static bool can_adam(const tt_backend *backend, const tt_site *site)
{
    return can(backend, site) || can_random(backend, site);
}

static bool can_apply(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types_in_layouts(
               site, site->op == &tt_op_ema ? "ffu" : "fffuff", "y") &&
           outputs_fit(site, 1);
}

static bool is_like(const tt_operand *o, const tt_operand *weight)
{
    return o->local.shape.ndim == weight->local.shape.ndim &&
           tt_shape_same_dims(&o->local.shape, &weight->local.shape);
}

// Everything of a weight lies as its gradient does, its copy in 16 bits too.
static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    const tt_operand gradient = site->in[1];
    for (int i = 0; i < site->n_in + site->n_out; i++) {
        tt_operand *o =
            i < site->n_in ? &site->in[i] : &site->out[i - site->n_in];
        if (i < site->n_in && !tt_site_has(site, i))
            continue;
        tt_operand_set_dense(o);
        if (gradient.layout != 0 && is_like(o, &gradient))
            TT_TRY(tt__cuda_channels_last(backend, o));
    }
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_cuda_optim_args describe(const tt_site *site, const tt_args *args)
{
    const tt_optim_params *p = site->params;
    const bool is_random = site->in[0].dtype == TT_BF16;
    return (tt_cuda_optim_args){
        .is_random = is_random,
        .origin_hash =
            is_random ? tt_hash(site->origin, (int64_t)strlen(site->origin))
                      : 0,
        .seed = p->seed,
        .first = tt_local_to_global(&site->in[0].local, 0),
        .rule = rule_of(site->op),
        .n = tt_operand_count(&site->in[0]),
        .weight_decay = p->weight_decay,
        .momentum = p->momentum,
        .dampening = p->dampening,
        .alpha = p->alpha,
        .beta1 = p->beta1,
        .beta2 = p->beta2,
        .eps = p->eps,
        .lr_decay = p->lr_decay,
        .trust = p->trust,
        .nesterov = p->nesterov,
        .adapt = p->adapt,
        .w = args->in[0],
        .g = args->in[1],
        .w_out = args->out[0],
    };
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    const int n = tt_optim_n_state(site->op);
    tt_cuda_optim_args a = describe(site, args);
    a.lr = args->in[TT_OPTIM_LR];
    a.scale = args->in[TT_OPTIM_SCALE];
    a.step = args->in[TT_OPTIM_STEP];
    a.skip = args->in[TT_OPTIM_SKIP];
    a.s0 = n > 0 ? args->in[TT_OPTIM_STATE] : NULL;
    a.s1 = n > 1 ? args->in[TT_OPTIM_STATE + 1] : NULL;
    a.s0_out = n > 0 ? args->out[1] : NULL;
    a.s1_out = n > 1 ? args->out[2] : NULL;
    if (site->n_out > 1 + n) {
        a.low = args->out[1 + n];
        a.low_type = site->out[1 + n].dtype;
    }
    if (site->op == &tt_op_lars && a.adapt) {
        a.wnorm = args->in[TT_OPTIM_STATE + 1];
        a.unorm = args->in[TT_OPTIM_STATE + 2];
    }
    return TT__CUDA(state, optim, &a);
}

static tt_status run_lamb(void *state, const tt_site *site, const tt_args *args)
{
    tt_cuda_optim_args a = describe(site, args);
    a.lr = args->in[2];
    a.skip = args->in[3];
    a.wnorm = a.adapt ? args->in[4] : NULL;
    a.unorm = a.adapt ? args->in[5] : NULL;
    if (site->n_out > 1) {
        a.low = args->out[1];
        a.low_type = site->out[1].dtype;
    }
    return TT__CUDA(state, optim, &a);
}

static tt_status run_ema(void *state, const tt_site *site, const tt_args *args)
{
    const tt_ema_params *p = site->params;
    const tt_cuda_optim_args a = {.rule = TT_CUDA_EMA,
                                  .n = tt_operand_count(&site->in[0]),
                                  .alpha = 1 - p->decay,
                                  .w = args->in[0],
                                  .g = args->in[1],
                                  .skip = args->in[2],
                                  .w_out = args->out[0]};
    return TT__CUDA(state, optim, &a);
}

const tt_kernel_def tt__cuda_optim_kernels[] = {
    {TT_KERNEL(cuda, sgd), .can = can, .prepare = prepare, .run = run},
    {TT_KERNEL(cuda, momentum), .can = can, .prepare = prepare, .run = run},
    {TT_KERNEL(cuda, adagrad), .can = can, .prepare = prepare, .run = run},
    {TT_KERNEL(cuda, rmsprop), .can = can, .prepare = prepare, .run = run},
    {TT_KERNEL(cuda, adam), .can = can_adam, .prepare = prepare, .run = run},
    {TT_KERNEL(cuda, adamw), .can = can_adam, .prepare = prepare, .run = run},
    {TT_KERNEL(cuda, lars), .can = can, .prepare = prepare, .run = run},
    {TT_KERNEL(cuda, lamb_update), .can = can, .prepare = prepare, .run = run},
    {TT_KERNEL(cuda, lamb), .can = can_apply, .prepare = prepare,
     .run = run_lamb},
    {TT_KERNEL(cuda, ema), .can = can_apply, .prepare = prepare,
     .run = run_ema},
    {0},
};
