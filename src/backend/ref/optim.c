// optim - reference kernels of the optimisers and of averages. One loop; each
// optimiser is a function of one element. Outputs may lie where the inputs lie.

#include "ops/optim/optim.h"

#include "backend/kernel.h"
#include "base/rng.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

// What all elements of a parameter share.
typedef struct context {
    const tt_optim_params *p;
    double lr, scale, step;
    double rate; // lars, lamb: of this layer
    bool is_skipped;
} context;

// One element: changes w and the states s.
typedef void element_fn(const context *c, double g, double *w, double *s);

static void sgd(const context *c, double g, double *w, double *s)
{
    (void)s;
    *w -= c->lr * (g + c->p->weight_decay * *w);
}

static void momentum(const context *c, double g, double *w, double *s)
{
    const tt_optim_params *p = c->p;
    g += p->weight_decay * *w;
    s[0] = c->step <= 1 ? g : p->momentum * s[0] + (1 - p->dampening) * g;
    *w -= c->lr * (p->nesterov ? g + p->momentum * s[0] : s[0]);
}

static void adagrad(const context *c, double g, double *w, double *s)
{
    const tt_optim_params *p = c->p;
    g += p->weight_decay * *w;
    s[0] += g * g;
    *w -= c->lr / (1 + (c->step - 1) * p->lr_decay) * g / (sqrt(s[0]) + p->eps);
}

static void rmsprop(const context *c, double g, double *w, double *s)
{
    const tt_optim_params *p = c->p;
    g += p->weight_decay * *w;
    s[0] = p->alpha * s[0] + (1 - p->alpha) * g * g;
    *w -= c->lr * g / (sqrt(s[0]) + p->eps);
}

// The running means of the gradient and of its square.
static void mean(const context *c, double g, double *s)
{
    s[0] = c->p->beta1 * s[0] + (1 - c->p->beta1) * g;
    s[1] = c->p->beta2 * s[1] + (1 - c->p->beta2) * g * g;
}

static void adam_step(const context *c, double g, double *w, double *s)
{
    const double bias1 = 1 - pow(c->p->beta1, c->step);
    const double bias2 = 1 - pow(c->p->beta2, c->step);
    mean(c, g, s);
    *w -= c->lr / bias1 * s[0] / (sqrt(s[1]) / sqrt(bias2) + c->p->eps);
}

static void adam(const context *c, double g, double *w, double *s)
{
    adam_step(c, g + c->p->weight_decay * *w, w, s);
}

static void adamw(const context *c, double g, double *w, double *s)
{
    *w -= c->lr * c->p->weight_decay * *w;
    adam_step(c, g, w, s);
}

static void yogi(const context *c, double g, double *w, double *s)
{
    const tt_optim_params *p = c->p;
    const double bias1 = 1 - pow(p->beta1, c->step);
    const double bias2 = 1 - pow(p->beta2, c->step);
    g += p->weight_decay * *w;
    const double sign = s[1] > g * g ? 1 : s[1] < g * g ? -1 : 0;
    s[0] = p->beta1 * s[0] + (1 - p->beta1) * g;
    s[1] -= (1 - p->beta2) * sign * g * g;
    *w -= c->lr / bias1 * s[0] / (sqrt(s[1]) / sqrt(bias2) + p->eps);
}

static void lars(const context *c, double g, double *w, double *s)
{
    const tt_optim_params *p = c->p;
    s[0] = p->momentum * s[0] + c->lr * c->rate * (g + p->weight_decay * *w);
    *w -= s[0];
}

// Output 0 is the update, not the weight.
static void lamb_update(const context *c, double g, double *w, double *s)
{
    const double bias1 = 1 - pow(c->p->beta1, c->step);
    const double bias2 = 1 - pow(c->p->beta2, c->step);
    mean(c, g, s);
    *w = s[0] / bias1 / (sqrt(s[1] / bias2) + c->p->eps) +
         c->p->weight_decay * *w;
}

// ---- loops ---------------------------------------------------------------

static double scalar(const tt_site *site, const tt_args *args, int i)
{
    return tt_dtype_load(site->in[i].dtype, args->in[i], 0);
}

static context context_of(const tt_site *site, const tt_args *args)
{
    return (context){
        .p = site->params,
        .lr = scalar(site, args, TT_OPTIM_LR),
        .scale = scalar(site, args, TT_OPTIM_SCALE),
        .step = scalar(site, args, TT_OPTIM_STEP),
        .rate = 1,
        .is_skipped = scalar(site, args, TT_OPTIM_SKIP) != 0,
    };
}

// Stochastic rounding. bf16 is the upper half of a float. Adding a random number to the
// lower half, which is cut off, carries into the upper half with a probability
// proportional to what is cut off. So the mean of many roundings is x.
static double rounded_at_random(float x, uint32_t random)
{
    uint32_t bits;
    if (!isfinite(x))
        return (double)x;
    memcpy(&bits, &x, sizeof bits);
    bits = (bits + (random >> 16)) & 0xffff0000u;
    memcpy(&x, &bits, sizeof bits);
    return (double)x;
}

static double weight(const tt_site *site, const context *c, int64_t i,
                     double value)
{
    const tt_operand *w = &site->out[0];
    if (!c->p->is_random || w->dtype != TT_BF16 || c->is_skipped)
        return value;
    const uint64_t key =
        tt_rng_key((uint64_t)c->p->seed, site->origin, (uint64_t)c->step);
    const int64_t at = tt_local_to_global(&site->in[TT_OPTIM_W].local, i);
    return rounded_at_random((float)value, tt_rng_u32(key, (uint64_t)at));
}

static void store(const tt_site *site, const tt_args *args, int out, int64_t i,
                  double value)
{
    if (out < site->n_out)
        tt_dtype_store(site->out[out].dtype, args->out[out], i, value);
}

static void run_elements(const tt_site *site, const tt_args *args,
                         const context *c, int n_state, element_fn *fn)
{
    const int64_t n = tt_operand_count(&site->in[TT_OPTIM_W]);
    for (int64_t i = 0; i < n; i++) {
        double w =
            tt_dtype_load(site->in[TT_OPTIM_W].dtype, args->in[TT_OPTIM_W], i);
        const double g =
            tt_dtype_load(site->in[TT_OPTIM_G].dtype, args->in[TT_OPTIM_G], i);
        double s[TT_OPTIM_MAX_STATE] = {0};
        for (int k = 0; k < n_state; k++)
            s[k] = tt_dtype_load(site->in[TT_OPTIM_STATE + k].dtype,
                                 args->in[TT_OPTIM_STATE + k], i);
        if (!c->is_skipped)
            fn(c, g * c->scale, &w, s);
        store(site, args, 0, i, weight(site, c, i, w));
        for (int k = 0; k < n_state; k++)
            store(site, args, 1 + k, i, s[k]);
        store(site, args, 1 + n_state, i, w); // low, when it is there
    }
}

static tt_status run_plain(const tt_site *site, const tt_args *args,
                           int n_state, element_fn *fn)
{
    const context c = context_of(site, args);
    run_elements(site, args, &c, n_state, fn);
    return TT_OK;
}

TT_KERNEL_RUN(run_sgd, run_plain(site, args, 0, sgd))
TT_KERNEL_RUN(run_momentum, run_plain(site, args, 1, momentum))
TT_KERNEL_RUN(run_adagrad, run_plain(site, args, 1, adagrad))
TT_KERNEL_RUN(run_rmsprop, run_plain(site, args, 1, rmsprop))
TT_KERNEL_RUN(run_adam, run_plain(site, args, 2, adam))
TT_KERNEL_RUN(run_adamw, run_plain(site, args, 2, adamw))
TT_KERNEL_RUN(run_yogi, run_plain(site, args, 2, yogi))

static tt_status run_lars(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    context c = context_of(site, args);
    if (c.p->adapt) {
        const double w = sqrt(scalar(site, args, TT_OPTIM_STATE + 1));
        const double g = sqrt(scalar(site, args, TT_OPTIM_STATE + 2)) * c.scale;
        if (w > 0 && g > 0)
            c.rate = c.p->trust * w / (g + c.p->weight_decay * w + c.p->eps);
    }
    run_elements(site, args, &c, 1, lars);
    return TT_OK;
}

TT_KERNEL_RUN(run_lamb_update, run_plain(site, args, 2, lamb_update))

static tt_status run_lamb(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_optim_params *p = site->params;
    double rate = scalar(site, args, 2);
    const bool is_skipped = scalar(site, args, 3) != 0;
    if (p->adapt) {
        const double w = sqrt(scalar(site, args, 4));
        const double u = sqrt(scalar(site, args, 5));
        rate *= w > 0 && u > 0 ? w / u : 1;
    }
    const int64_t n = tt_operand_count(&site->in[0]);
    for (int64_t i = 0; i < n; i++) {
        double w = tt_dtype_load(site->in[0].dtype, args->in[0], i);
        if (!is_skipped)
            w -= rate * tt_dtype_load(site->in[1].dtype, args->in[1], i);
        store(site, args, 0, i, w);
        store(site, args, 1, i, w);
    }
    return TT_OK;
}

static tt_status run_ema(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_ema_params *p = site->params;
    const double take = scalar(site, args, 2) != 0 ? 0 : 1 - p->decay;
    const int64_t n = tt_operand_count(&site->in[0]);
    for (int64_t i = 0; i < n; i++) {
        double mean = tt_dtype_load(site->in[0].dtype, args->in[0], i);
        if (take > 0)
            mean += take *
                    (tt_dtype_load(site->in[1].dtype, args->in[1], i) - mean);
        store(site, args, 0, i, mean);
    }
    return TT_OK;
}

const tt_kernel_def tt__ref_optim_kernels[] = {
    {TT_KERNEL(ref, sgd), .run = run_sgd},
    {TT_KERNEL(ref, momentum), .run = run_momentum},
    {TT_KERNEL(ref, adagrad), .run = run_adagrad},
    {TT_KERNEL(ref, rmsprop), .run = run_rmsprop},
    {TT_KERNEL(ref, adam), .run = run_adam},
    {TT_KERNEL(ref, adamw), .run = run_adamw},
    {TT_KERNEL(ref, yogi), .run = run_yogi},
    {TT_KERNEL(ref, lars), .run = run_lars},
    {TT_KERNEL(ref, lamb_update), .run = run_lamb_update},
    {TT_KERNEL(ref, lamb), .run = run_lamb},
    {TT_KERNEL(ref, ema), .run = run_ema},
    {0},
};
