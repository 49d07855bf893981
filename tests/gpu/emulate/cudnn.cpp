// cudnn - as much of cuDNN as the emulated device has: convolutions of 16-bit types, by
// the definition. Other kernels do attention, and convolutions of f32. It is as
// particular as the library: about addresses, types of the bias, padding.

#include "backend/cuda/dev/conv/conv.cuh"
#include "backend/cuda/dev/conv/dnn_conv.cuh"

#include <vector>

enum { FUSED = 0, PLAIN = 2 * TT_DNN_SUGGESTIONS, WORKSPACE = 64 };

struct tt_dnn_plan {
    tt_cuda *cuda;
    tt_cuda_conv_desc d;
    bool has_bias, has_relu, is_whole;
};

struct tt_dnn_menu {
    tt_cuda *cuda;
    tt_cuda_conv_desc d;
    std::vector<int> number;
};

size_t tt_dnn_version(void)
{
    return 0;
}

tt_dnn_menu *tt_dnn_look(tt_cuda *cuda, const tt_cuda_conv_desc *desc, int only)
{
    bool is_mine = is_low(desc->type);
    for (const tt_cuda_slide &s : desc->slide)
        is_mine = is_mine && s.pad >= 0 && pad_after(s) > -s.stride &&
                  (desc->way != TT_CUDA_GRAD_W || is_even(s));
    if (!is_mine)
        return NULL;
    tt_dnn_menu *menu = new tt_dnn_menu{cuda, *desc, {}};
    if (desc->bias_type != TT_N_DTYPES && (only < 0 || only == FUSED))
        menu->number.push_back(FUSED);
    if (only < 0 || only == PLAIN)
        menu->number.push_back(PLAIN);
    return menu;
}

int tt_dnn_size(const tt_dnn_menu *menu)
{
    return (int)menu->number.size();
}

int tt_dnn_usual(const tt_dnn_menu *menu)
{
    return tt_dnn_size(menu);
}

tt_dnn_plan *tt_dnn_take(tt_dnn_menu *menu, int i, int *number_out)
{
    const tt_cuda_conv_desc &d = menu->d;
    const bool has_bias = d.bias_type != TT_N_DTYPES;
    const bool is_fused = menu->number[(size_t)i] == FUSED;
    *number_out = menu->number[(size_t)i];
    return new tt_dnn_plan{menu->cuda, d, is_fused, is_fused && d.has_relu,
                           is_fused || (!has_bias && !d.has_relu)};
}

void tt_dnn_close(tt_dnn_menu *menu)
{
    delete menu;
}

void tt_dnn_destroy(tt_dnn_plan *plan)
{
    delete plan;
}

bool tt_dnn_is_whole(const tt_dnn_plan *plan)
{
    return plan->is_whole;
}

int64_t tt_dnn_bytes(const tt_dnn_plan *)
{
    return WORKSPACE;
}

// Where the entry (n, at..., c) of [.., extents..., channels] is.
static int64_t entry(const tt_cuda_conv_desc &d, int64_t tt_cuda_slide::*of,
                     const int64_t *at, int64_t channels, int64_t c)
{
    int64_t i = at[0];
    for (int k = 0; k < TT_CUDA_SPACE; k++)
        i = i * (d.slide[k].*of) + at[1 + k];
    return i * channels + c;
}

// Counts through [first, extents...]; false: all done.
static bool count_on(int64_t *at, int64_t first, const tt_cuda_conv_desc &d,
                     int64_t tt_cuda_slide::*of)
{
    for (int k = TT_CUDA_SPACE; k > 0; k--) {
        if (++at[k] < d.slide[k - 1].*of)
            return true;
        at[k] = 0;
    }
    return ++at[0] < first;
}

// Calls f with the places in x, w and y of all products of the convolution.
template <typename F> static void walk(const tt_cuda_conv_desc &d, const F &f)
{
    int64_t y[4] = {};
    do {
        int64_t w[4] = {};
        do {
            int64_t x[4] = {y[0]};
            bool is_inside = true;
            for (int k = 0; k < TT_CUDA_SPACE; k++) {
                const tt_cuda_slide &s = d.slide[k];
                x[1 + k] = y[1 + k] * s.stride - s.pad + w[1 + k] * s.dilation;
                is_inside = is_inside && x[1 + k] >= 0 && x[1 + k] < s.in;
            }
            const int64_t g = w[0] / d.o;
            for (int64_t c = 0; is_inside && c < d.c; c++)
                f(entry(d, &tt_cuda_slide::in, x, d.groups * d.c, g * d.c + c),
                  entry(d, &tt_cuda_slide::kernel, w, d.c, c),
                  entry(d, &tt_cuda_slide::out, y, d.groups * d.o, w[0]));
        } while (count_on(w, d.groups * d.o, d, &tt_cuda_slide::kernel));
    } while (count_on(y, d.n, d, &tt_cuda_slide::out));
}

template <typename T>
static void compute(const tt_dnn_plan &plan, const tt_cuda_conv_args &a)
{
    const tt_cuda_conv_desc &d = plan.d;
    const T *x = (const T *)a.x, *w = (const T *)a.w, *y = (const T *)a.y;
    T *to = (T *)(d.way == TT_CUDA_FORWARD  ? a.y
                  : d.way == TT_CUDA_GRAD_X ? a.x
                                            : a.w);
    const int64_t n = d.way == TT_CUDA_FORWARD  ? count_y(d)
                      : d.way == TT_CUDA_GRAD_X ? count_x(d)
                                                : count_w(d);
    std::vector<double> sum((size_t)n);
    for (int64_t i = 0; d.adds && i < n; i++)
        sum[(size_t)i] = to_float(to[i]);
    walk(d, [&](int64_t at_x, int64_t at_w, int64_t at_y) {
        if (d.way == TT_CUDA_FORWARD)
            sum[(size_t)at_y] += (double)to_float(x[at_x]) * to_float(w[at_w]);
        else if (d.way == TT_CUDA_GRAD_X)
            sum[(size_t)at_x] += (double)to_float(y[at_y]) * to_float(w[at_w]);
        else
            sum[(size_t)at_w] += (double)to_float(x[at_x]) * to_float(y[at_y]);
    });
    for (int64_t i = 0; i < n; i++) {
        double z = sum[(size_t)i];
        if (plan.has_bias)
            z += to_float(((const T *)a.bias)[i % (d.groups * d.o)]);
        to[i] = from_float<T>((float)(plan.has_relu && z <= 0 ? 0 : z));
    }
    memset(a.scratch, 0xff, WORKSPACE); // it is the plan's
}

const char *tt_dnn_run(tt_dnn_plan *plan, const tt_cuda_conv_args *args)
{
    const tt_dnn_plan p = *plan;
    const tt_cuda_conv_args a = *args;
    if (!is_aligned(a.x) || !is_aligned(a.w) || !is_aligned(a.y) ||
        !is_aligned(a.scratch) || (p.has_bias && !is_aligned(a.bias)))
        return tt_cuda_failed_text("cuDNN: an address is not aligned");
    emulated::queue(p.cuda->stream, [=] {
        if (p.d.type == TT_BF16)
            compute<bf16>(p, a);
        else
            compute<f16>(p, a);
    });
    return NULL;
}

extern "C" const char *tt_cuda_sdpa_create(tt_cuda *,
                                           const tt_cuda_attention_args *, bool,
                                           tt_cuda_sdpa **sdpa_out)
{
    *sdpa_out = NULL;
    return NULL;
}

extern "C" void tt_cuda_sdpa_destroy(tt_cuda_sdpa *)
{
}

extern "C" int64_t tt_cuda_sdpa_scratch(const tt_cuda_sdpa *)
{
    return 0;
}

extern "C" const char *tt_cuda_sdpa_run(tt_cuda_sdpa *,
                                        const tt_cuda_attention_args *)
{
    return tt_cuda_failed_text("there is no cuDNN");
}
