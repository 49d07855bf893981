// optimizer - each rule is one loop over a block of elements. Constants that depend on
// the step, such as Adam's bias corrections, are computed once per call, in double: in
// fp32 1 - 0.999 would be wrong in the fifth digit.

#include "backend/cpu/simd/optimizer.h"

#include "backend/cpu/simd/parallel.h"
#include "backend/cpu/simd/scalar.h"

extern const tt_simd_optimizer TT_SYMBOL(tt_simd_optimizer);

typedef tt_simd_optimizer_args args;

// A block: elements [first, last) of the arrays.
typedef void rule_fn(const args *a, int64_t first, int64_t last);

static void each_block(const args *a, rule_fn *rule)
{
#pragma omp parallel for schedule(static) if (a->n >= TT_FORK_ELEMENTS)
    for (int64_t i = 0; i < a->n; i += TT_BLOCK) {
        const int64_t last = min_i64(a->n, i + TT_BLOCK);
        rule(a, i, last);
        if (a->w_bf16 != NULL)
#pragma omp simd
            for (int64_t j = i; j < last; j++)
                a->w_bf16[j] = f32_to_bf16(a->w[j]);
    }
}

static void sgd_plain(const args *a, int64_t first, int64_t last)
{
    float *restrict w = a->w;
    const float *restrict g = a->g;
    const float scale = a->grad_scale, l2 = (float)a->weight_decay;
    const float lr = (float)a->lr;
#pragma omp simd
    for (int64_t i = first; i < last; i++)
        w[i] -= lr * (g[i] * scale + l2 * w[i]);
}

static void sgd_momentum(const args *a, int64_t first, int64_t last)
{
    float *restrict w = a->w, *restrict m = a->m;
    const float *restrict g = a->g;
    const float scale = a->grad_scale, l2 = (float)a->weight_decay;
    const float lr = (float)a->lr, keep = (float)a->momentum;
    // The first step starts from the gradient itself, without dampening.
    const bool starts = a->step == 1;
    const float take = starts ? 1.0f : (float)(1.0 - a->dampening);
    const float direct = a->is_nesterov ? 1.0f : 0.0f;
    const float heavy = a->is_nesterov ? keep : 1.0f;
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float d = g[i] * scale + l2 * w[i];
        const float buffer = (starts ? 0.0f : keep * m[i]) + take * d;
        m[i] = buffer;
        w[i] -= lr * (direct * d + heavy * buffer);
    }
}

static void sgd(const args *a)
{
    each_block(a, a->m == NULL ? sgd_plain : sgd_momentum);
}

static void adagrad_rule(const args *a, int64_t first, int64_t last)
{
    float *restrict w = a->w, *restrict v = a->v;
    const float *restrict g = a->g;
    const float scale = a->grad_scale, l2 = (float)a->weight_decay;
    const float lr =
        (float)(a->lr / (1.0 + (double)(a->step - 1) * a->lr_decay));
    const float epsilon = (float)a->epsilon;
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float d = g[i] * scale + l2 * w[i];
        v[i] += d * d;
        w[i] -= lr * d / (sqrtf(v[i]) + epsilon);
    }
}

static void adagrad(const args *a)
{
    each_block(a, adagrad_rule);
}

static void rmsprop_plain(const args *a, int64_t first, int64_t last)
{
    float *restrict w = a->w, *restrict v = a->v;
    const float *restrict g = a->g;
    const float scale = a->grad_scale, l2 = (float)a->weight_decay;
    const float keep = (float)a->alpha, take = (float)(1.0 - a->alpha);
    const float lr = (float)a->lr, epsilon = (float)a->epsilon;
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float d = g[i] * scale + l2 * w[i];
        v[i] = keep * v[i] + take * d * d;
        w[i] -= lr * d / (sqrtf(v[i]) + epsilon);
    }
}

static void rmsprop_momentum(const args *a, int64_t first, int64_t last)
{
    float *restrict w = a->w, *restrict v = a->v, *restrict m = a->m;
    const float *restrict g = a->g;
    const float scale = a->grad_scale, l2 = (float)a->weight_decay;
    const float keep = (float)a->alpha, take = (float)(1.0 - a->alpha);
    const float lr = (float)a->lr, epsilon = (float)a->epsilon;
    const float momentum = (float)a->momentum;
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float d = g[i] * scale + l2 * w[i];
        v[i] = keep * v[i] + take * d * d;
        m[i] = momentum * m[i] + d / (sqrtf(v[i]) + epsilon);
        w[i] -= lr * m[i];
    }
}

static void rmsprop(const args *a)
{
    each_block(a, a->m == NULL ? rmsprop_plain : rmsprop_momentum);
}

// 1 - beta^step; 0 only if beta is 1.
static double correction(double beta, int64_t step)
{
    return 1.0 - pow(beta, (double)step);
}

// w = keep w - rate m / (sqrt(v) / root + epsilon), the moments brought up to
// date with g + l2 w.
typedef struct moments {
    float keep, l2, rate, inv_root;
} moments;

TT_INLINE void adam_loop(const args *a, moments c, int64_t first, int64_t last)
{
    float *restrict w = a->w, *restrict m = a->m, *restrict v = a->v;
    const float *restrict g = a->g;
    const float scale = a->grad_scale, epsilon = (float)a->epsilon;
    const float take1 = (float)(1.0 - a->beta1), keep2 = (float)a->beta2;
    const float take2 = (float)(1.0 - a->beta2);
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float d = g[i] * scale + c.l2 * w[i];
        const float m_new = m[i] + take1 * (d - m[i]);
        const float v_new = keep2 * v[i] + take2 * d * d;
        m[i] = m_new;
        v[i] = v_new;
        w[i] = c.keep * w[i] -
               c.rate * m_new / (sqrtf(v_new) * c.inv_root + epsilon);
    }
}

static moments moments_of(const args *a)
{
    return (moments){
        .keep = 1.0f,
        .rate = (float)(a->lr / correction(a->beta1, a->step)),
        .inv_root = (float)(1.0 / sqrt(correction(a->beta2, a->step))),
    };
}

static void adam_rule(const args *a, int64_t first, int64_t last)
{
    moments c = moments_of(a);
    c.l2 = (float)a->weight_decay;
    adam_loop(a, c, first, last);
}

static void adamw_rule(const args *a, int64_t first, int64_t last)
{
    moments c = moments_of(a);
    c.keep = (float)(1.0 - a->lr * a->weight_decay);
    adam_loop(a, c, first, last);
}

static void adam(const args *a)
{
    each_block(a, adam_rule);
}

static void adamw(const args *a)
{
    each_block(a, adamw_rule);
}

static void yogi_rule(const args *a, int64_t first, int64_t last)
{
    float *restrict w = a->w, *restrict m = a->m, *restrict v = a->v;
    const float *restrict g = a->g;
    const moments c = moments_of(a);
    const float scale = a->grad_scale, l2 = (float)a->weight_decay;
    const float epsilon = (float)a->epsilon;
    const float take1 = (float)(1.0 - a->beta1);
    const float take2 = (float)(1.0 - a->beta2);
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float d = g[i] * scale + l2 * w[i];
        const float square = d * d;
        const float sign = (float)(v[i] > square) - (float)(v[i] < square);
        m[i] += take1 * (d - m[i]);
        v[i] -= take2 * sign * square;
        w[i] -= c.rate * m[i] / (sqrtf(v[i]) * c.inv_root + epsilon);
    }
}

static void yogi(const args *a)
{
    each_block(a, yogi_rule);
}

static void lars_rule(const args *a, int64_t first, int64_t last)
{
    float *restrict w = a->w, *restrict m = a->m;
    const float *restrict g = a->g;
    const float scale = a->grad_scale, l2 = (float)a->weight_decay;
    const float rate = (float)(a->lr * a->trust), keep = (float)a->momentum;
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        m[i] = keep * m[i] + rate * (g[i] * scale + l2 * w[i]);
        w[i] -= m[i];
    }
}

static void lars(const args *a)
{
    each_block(a, lars_rule);
}

static void lamb_rule(const args *a, int64_t first, int64_t last)
{
    float *restrict m = a->m, *restrict v = a->v;
    float *update = a->update; // may be the gradient
    const float *w = a->w, *g = a->g;
    const moments c = moments_of(a);
    const float inv1 = (float)(1.0 / correction(a->beta1, a->step));
    const float l2 = (float)a->weight_decay;
    const float scale = a->grad_scale, epsilon = (float)a->epsilon;
    const float take1 = (float)(1.0 - a->beta1), keep2 = (float)a->beta2;
    const float take2 = (float)(1.0 - a->beta2);
#pragma omp simd
    for (int64_t i = first; i < last; i++) {
        const float d = g[i] * scale;
        const float m_new = m[i] + take1 * (d - m[i]);
        const float v_new = keep2 * v[i] + take2 * d * d;
        m[i] = m_new;
        v[i] = v_new;
        update[i] =
            m_new * inv1 / (sqrtf(v_new) * c.inv_root + epsilon) + l2 * w[i];
    }
}

static void lamb_update(const args *a)
{
    args direction = *a;
    direction.w_bf16 = NULL; // weights do not change yet
    each_block(&direction, lamb_rule);
}

static void lamb_apply_rule(const args *a, int64_t first, int64_t last)
{
    float *restrict w = a->w;
    const float *restrict update = a->update;
    const float rate = (float)(a->lr * a->trust);
#pragma omp simd
    for (int64_t i = first; i < last; i++)
        w[i] -= rate * update[i];
}

static void lamb_apply(const args *a)
{
    each_block(a, lamb_apply_rule);
}

static void ema_rule(const args *a, int64_t first, int64_t last)
{
    const float *restrict w = a->w;
    float *restrict v = a->v;
    const float take = (float)(1.0 - a->alpha);
#pragma omp simd
    for (int64_t i = first; i < last; i++)
        v[i] += take * (w[i] - v[i]);
}

static void ema(const args *a)
{
    each_block(a, ema_rule);
}

const tt_simd_optimizer TT_SYMBOL(tt_simd_optimizer) = {
    .sgd = sgd,
    .adagrad = adagrad,
    .rmsprop = rmsprop,
    .adam = adam,
    .adamw = adamw,
    .yogi = yogi,
    .lars = lars,
    .lamb_update = lamb_update,
    .lamb_apply = lamb_apply,
    .ema = ema,
};
