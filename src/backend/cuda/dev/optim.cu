// optim - updates of weights: every state is read and written once. Bound by memory
// bandwidth (AdamW with a copy in bf16: 30 bytes per weight).

#include "backend/cuda/dev/common.cuh"

enum { THREADS = 256 };

// What is the same for all elements, computed once per block.
struct shared_terms {
    bool is_skipped;
    float lr, scale, step;
    float bias1, root2; // of Adam: lr / (1 - beta1^t), sqrt(1 - beta2^t)
    float rate;         // of the layer
};

__device__ static shared_terms terms_of(const tt_cuda_optim_args &a)
{
    shared_terms t = {};
    t.is_skipped = *a.skip != 0;
    t.lr = a.lr == NULL ? 0 : *a.lr;
    t.scale = a.scale == NULL ? 1 : *a.scale;
    t.rate = 1;
    const double step = a.step == NULL ? 1 : (double)*a.step;
    t.step = (float)step;
    if (a.beta1 > 0 || a.beta2 > 0) {
        t.bias1 = (float)(1 / (1 - pow(a.beta1, step)));
        t.root2 = (float)(1 / sqrt(1 - pow(a.beta2, step)));
    }
    if (a.rule == TT_CUDA_LARS && a.wnorm != NULL) {
        const double w = sqrt((double)*a.wnorm);
        const double g = sqrt((double)*a.unorm) * t.scale;
        if (w > 0 && g > 0)
            t.rate = (float)(a.trust * w / (g + a.weight_decay * w + a.eps));
    }
    if (a.rule == TT_CUDA_LAMB && a.wnorm != NULL) {
        const double w = sqrt((double)*a.wnorm), u = sqrt((double)*a.unorm);
        t.rate = (float)(w > 0 && u > 0 ? w / u : 1);
    }
    return t;
}

// One element: changes w and the states s and v.
template <int RULE>
__device__ static inline void update(const tt_cuda_optim_args &a,
                                     const shared_terms &t, float g, float &w,
                                     float &s, float &v)
{
    const float decay = (float)a.weight_decay, eps = (float)a.eps;
    const float beta1 = (float)a.beta1, beta2 = (float)a.beta2;
    const float left1 = (float)(1 - a.beta1), left2 = (float)(1 - a.beta2);
    switch (RULE) {
    case TT_CUDA_SGD:
        w -= t.lr * (g + decay * w);
        break;
    case TT_CUDA_MOMENTUM:
        g += decay * w;
        s = t.step <= 1 ? g : (float)a.momentum * s + (float)(1 - a.dampening) * g;
        w -= t.lr * (a.nesterov ? g + (float)a.momentum * s : s);
        break;
    case TT_CUDA_ADAGRAD:
        g += decay * w;
        s += g * g;
        w -= t.lr / (1 + (t.step - 1) * (float)a.lr_decay) * g /
             (sqrtf(s) + eps);
        break;
    case TT_CUDA_RMSPROP:
        g += decay * w;
        s = (float)a.alpha * s + (float)(1 - a.alpha) * g * g;
        w -= t.lr * g / (sqrtf(s) + eps);
        break;
    case TT_CUDA_ADAM:
    case TT_CUDA_ADAMW:
        if (RULE == TT_CUDA_ADAM)
            g += decay * w;
        else
            w -= t.lr * decay * w;
        s = beta1 * s + left1 * g;
        v = beta2 * v + left2 * g * g;
        w -= t.lr * t.bias1 * s / (sqrtf(v) * t.root2 + eps);
        break;
    case TT_CUDA_LARS:
        s = (float)a.momentum * s + t.lr * t.rate * (g + decay * w);
        w -= s;
        break;
    case TT_CUDA_LAMB_UPDATE: // w becomes the update
        s = beta1 * s + left1 * g;
        v = beta2 * v + left2 * g * g;
        w = s * t.bias1 / (sqrtf(v) * t.root2 + eps) + decay * w;
        break;
    case TT_CUDA_LAMB: // g is the update
        w -= t.lr * t.rate * g;
        break;
    default: // EMA: g is the weight
        w += (float)a.alpha * (g - w);
        break;
    }
}

template <int RULE> __global__ void optim(tt_cuda_optim_args a)
{
    __shared__ shared_terms t;
    if (threadIdx.x == 0)
        t = terms_of(a);
    __syncthreads();
    const int64_t i = blockIdx.x * (int64_t)THREADS + threadIdx.x;
    if (i >= a.n)
        return;
    float w = a.w[i];
    float s = a.s0 == NULL ? 0 : a.s0[i], v = a.s1 == NULL ? 0 : a.s1[i];
    if (!t.is_skipped)
        update<RULE>(a, t, a.g[i] * t.scale, w, s, v);
    a.w_out[i] = w;
    if (a.s0_out != NULL)
        a.s0_out[i] = s;
    if (a.s1_out != NULL)
        a.s1_out[i] = v;
    if (a.low != NULL)
        ((bf16 *)a.low)[i] = __float2bfloat16_rn(w);
}

template <int RULE>
static const char *launch(tt_cuda *cuda, const tt_cuda_optim_args *a)
{
    optim<RULE><<<(unsigned)ceil_div(a->n, THREADS), THREADS, 0,
                  cuda->stream>>>(*a);
    return launched();
}

extern "C" const char *tt_cuda_optim(tt_cuda *cuda,
                                     const tt_cuda_optim_args *args)
{
#define CASE(rule)                                                             \
    case rule:                                                                 \
        return launch<rule>(cuda, args);
    switch (args->rule) {
        CASE(TT_CUDA_SGD)
        CASE(TT_CUDA_MOMENTUM)
        CASE(TT_CUDA_ADAGRAD)
        CASE(TT_CUDA_RMSPROP)
        CASE(TT_CUDA_ADAM)
        CASE(TT_CUDA_ADAMW)
        CASE(TT_CUDA_LARS)
        CASE(TT_CUDA_LAMB_UPDATE)
        CASE(TT_CUDA_LAMB)
        CASE(TT_CUDA_EMA)
    }
#undef CASE
    return tt_cuda_failed_text("unknown update rule %d", (int)args->rule);
}
