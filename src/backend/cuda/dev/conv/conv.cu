// conv - the ways of computing a convolution: as a GEMM, by cuDNN, by kernels for few
// channels, or by a plain kernel where none of these can. conv_choose.cu picks one.
//
// As a GEMM. With kernel 1 and stride 1 a convolution is y[pixels, o] = x[pixels, c]
// w^T. Where windows lie side by side (stride = kernel, as the patches of a ViT) it is
// one too, once each window is a row: im2col, which here only permutes x and copies
// nothing twice. Sums of the weights' gradient stay f32 this way.
//
// By cuDNN. It needs help in three places:
//   - It has no engine with an f32 weight gradient for bf16 operands. That gradient is
//     rounded to bf16 in scratch, and a kernel of ours adds it to the f32 one.
//   - Its fused bias must have the convolution's type: an f32 bias is rounded first.
//   - It has made wrong weight gradients where there is more padding after the image
//     than before it (an image cut by rows). There x is copied with its padding.
//
// cuDNN's engines read 16 bytes at a time. Where an address is no multiple of 16 (a
// shard of a block of weights may begin anywhere) the plain kernel does it.

#include "backend/cuda/dev/conv/conv.cuh"
#include "backend/cuda/dev/conv/dnn_conv.cuh"

#include <new>

struct tt_cuda_conv {
    tt_cuda *cuda;
    tt_cuda_conv_desc d;
    tt_cuda_gemm *gemm; // at most one of these two
    tt_dnn_plan *plan;
    bool is_few;   // by the kernels for few channels
    bool is_whole; // it does bias and activation too
};

// ---- sizes -----------------------------------------------------------------

static int64_t align(int64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static bool has_bias(const tt_cuda_conv_desc &d)
{
    return d.bias_type != TT_N_DTYPES;
}

// The same convolution of an x that has the padding in it.
static tt_cuda_conv_desc padded(const tt_cuda_conv_desc &d)
{
    tt_cuda_conv_desc p = d;
    for (tt_cuda_slide &s : p.slide) {
        const int64_t after = pad_after(s);
        s.in += s.pad + (after > 0 ? after : 0);
        s.pad = 0;
    }
    return p;
}

// Whether x must be copied with its padding for cuDNN: it has made wrong weight
// gradients where there is more padding after the image than before it.
static bool is_lopsided(const tt_cuda_conv_desc &d)
{
    bool is_padded = false;
    for (const tt_cuda_slide &s : d.slide) {
        if (s.pad < 0)
            return false;
        is_padded = is_padded || !is_even(s);
    }
    return d.way == TT_CUDA_GRAD_W && is_padded;
}

// The convolution that cuDNN is asked for. Where its x differs, it gets a copy of x.
tt_cuda_conv_desc tt_cuda_conv_inner(const tt_cuda_conv_desc &d)
{
    return is_lopsided(d) ? padded(d) : d;
}

static int64_t bytes_of(tt_dtype type, int64_t n)
{
    return align(n * (is_low(type) ? 2 : 4));
}

static int64_t copy_bytes(const tt_cuda_conv_desc &d)
{
    return is_lopsided(d) ? bytes_of(d.type, count_x(padded(d))) : 0;
}

// The weights' gradient as cuDNN leaves it, in the operands' type.
static int64_t weight_bytes(const tt_cuda_conv_desc &d)
{
    return d.way == TT_CUDA_GRAD_W ? bytes_of(d.type, count_w(d)) : 0;
}

// ---- products --------------------------------------------------------------

// Whether it is a GEMM: every input is in exactly one window.
static bool is_product(const tt_cuda_conv_desc &d)
{
    for (const tt_cuda_slide &s : d.slide)
        if (s.stride != s.kernel || s.pad != 0 || s.in != s.kernel * s.out ||
            (s.kernel > 1 && s.dilation != 1))
            return false;
    return d.groups == 1;
}

// Whether windows must be made rows first (im2col).
static bool has_patches(const tt_cuda_conv_desc &d)
{
    return volume(d, &tt_cuda_slide::kernel) > 1;
}

// im2col of windows that do not overlap, or back: between x [n, out, kernel, ..., c]
// and rows [n, out..., kernel..., c]. It is a permutation, so the way back adds nothing
// up.
static const char *move_patches(tt_cuda_conv *conv, bool is_back,
                                const void *from, void *to)
{
    const tt_cuda_conv_desc &d = conv->d;
    tt_cuda_copy_args a = {};
    int64_t x = d.c, inner = d.c,
            outer = d.c * volume(d, &tt_cuda_slide::kernel);
    int64_t *x_stride = is_back ? a.to_stride : a.from_stride;
    int64_t *row_stride = is_back ? a.from_stride : a.to_stride;
    a.ndim = 2 * TT_CUDA_SPACE + 2;
    a.dim[0] = d.n;
    a.dim[a.ndim - 1] = d.c;
    x_stride[a.ndim - 1] = row_stride[a.ndim - 1] = 1;
    for (int i = TT_CUDA_SPACE - 1; i >= 0; i--) {
        const tt_cuda_slide &s = d.slide[i];
        const int o = 1 + i, k = 1 + TT_CUDA_SPACE + i;
        a.dim[o] = s.out;
        a.dim[k] = s.kernel;
        x_stride[k] = x;
        x_stride[o] = x * s.kernel;
        row_stride[k] = inner;
        row_stride[o] = outer;
        x *= s.in;
        inner *= s.kernel;
        outer *= s.out;
    }
    x_stride[0] = x;
    row_stride[0] = outer;
    a.to_type = a.from_type = d.type;
    a.from = from;
    a.to = to;
    return tt_cuda_copy(conv->cuda, &a);
}

static const char *make_gemm(tt_cuda_conv *conv)
{
    const tt_cuda_conv_desc &d = conv->d;
    const int64_t pixels = pixels_of(d);
    const int64_t c = d.c * volume(d, &tt_cuda_slide::kernel);
    tt_cuda_gemm_desc g = {};
    g.batch = 1;
    g.bias_type = TT_N_DTYPES;
    const tt_cuda_matrix x = {d.type, c, 1, 0}, y = {d.type, d.o, 1, 0};
    const tt_cuda_matrix w = {d.type, c, 1, 0};
    g.m = pixels;
    if (d.way == TT_CUDA_FORWARD) {
        g.n = d.o;
        g.k = c;
        g.a = x;
        g.b = {d.type, 1, c, 0};
        g.c = y;
        g.bias_type = d.bias_type;
    } else if (d.way == TT_CUDA_GRAD_X) {
        g.n = c;
        g.k = d.o;
        g.a = y;
        g.b = w;
        g.c = x;
        g.adds = d.adds;
    } else {
        g.m = d.o;
        g.n = c;
        g.k = pixels;
        g.a = {d.type, 1, d.o, 0};
        g.b = x;
        g.c = {TT_F32, c, 1, 0};
        g.adds = true;
    }
    return tt_cuda_gemm_create(conv->cuda, &g, &conv->gemm);
}

static int64_t patch_bytes(const tt_cuda_conv_desc &d)
{
    return has_patches(d) ? align(count_x(d) * (is_low(d.type) ? 2 : 4)) : 0;
}

static const char *run_gemm(tt_cuda_conv *conv, const tt_cuda_conv_args *a)
{
    const tt_cuda_conv_desc &d = conv->d;
    char *scratch = (char *)align((int64_t)(uintptr_t)a->scratch);
    void *x = has_patches(d) ? scratch : a->x;
    tt_cuda_gemm_args g = {};
    g.scratch = has_patches(d) ? scratch + patch_bytes(d) : a->scratch;
    if (has_patches(d) && d.way != TT_CUDA_GRAD_X)
        TRY(move_patches(conv, false, a->x, x));
    if (d.way == TT_CUDA_FORWARD) {
        g.a = x;
        g.b = a->w;
        g.bias = a->bias;
        g.c = a->y;
    } else if (d.way == TT_CUDA_GRAD_X) {
        g.a = a->y;
        g.b = a->w;
        g.c = x;
        g.accumulate = d.adds;
    } else {
        g.a = a->y;
        g.b = x;
        g.c = a->w;
        g.accumulate = a->accumulate;
    }
    if (has_patches(d) && d.way == TT_CUDA_GRAD_X && d.adds)
        TRY(move_patches(conv, false, a->x, x));
    TRY(tt_cuda_gemm_run(conv->gemm, &g));
    return has_patches(d) && d.way == TT_CUDA_GRAD_X
               ? move_patches(conv, true, x, a->x)
               : NULL;
}

// ---- running ---------------------------------------------------------------

static const char *pad_x(tt_cuda_conv *conv, const void *x, void *to)
{
    const tt_cuda_conv_desc &d = conv->d, p = padded(d);
    const int64_t bytes = is_low(d.type) ? 2 : 4;
    tt_cuda_copy_args a = {};
    TRY_CUDA(cudaMemsetAsync(to, 0, (size_t)copy_bytes(d), conv->cuda->stream));
    a.ndim = TT_CUDA_SPACE + 2;
    a.dim[0] = d.n;
    a.dim[a.ndim - 1] = d.groups * d.c;
    int64_t from = d.groups * d.c, step = from, first = 0;
    a.from_stride[a.ndim - 1] = a.to_stride[a.ndim - 1] = 1;
    for (int i = TT_CUDA_SPACE - 1; i >= 0; i--) {
        a.dim[i + 1] = d.slide[i].in;
        a.from_stride[i + 1] = from;
        a.to_stride[i + 1] = step;
        first += d.slide[i].pad * step;
        from *= d.slide[i].in;
        step *= p.slide[i].in;
    }
    a.from_stride[0] = from;
    a.to_stride[0] = step;
    a.to_type = a.from_type = d.type;
    a.from = x;
    a.to = (char *)to + first * bytes;
    return tt_cuda_copy(conv->cuda, &a);
}

// cuDNN wants the bias in the type of the rest.
static bool casts_bias(const tt_cuda_conv *conv)
{
    const tt_cuda_conv_desc &d = conv->d;
    return conv->plan != NULL && conv->is_whole && has_bias(d) &&
           d.bias_type != d.type;
}

static int64_t bias_bytes(const tt_cuda_conv *conv)
{
    return casts_bias(conv) ? align(4 * conv->d.groups * conv->d.o) : 0;
}

static const char *cast_bias(tt_cuda_conv *conv, const void *bias, void *to)
{
    const tt_cuda_conv_desc &d = conv->d;
    tt_cuda_copy_args a = {};
    a.ndim = 1;
    a.dim[0] = d.groups * d.o;
    a.to_stride[0] = a.from_stride[0] = 1;
    a.to_type = d.type;
    a.from_type = d.bias_type;
    a.to = to;
    a.from = bias;
    return tt_cuda_copy(conv->cuda, &a);
}

// Adds the weights' gradient as cuDNN left it to the f32 one.
static const char *add_gradient(tt_cuda_conv *conv, const void *low,
                                const tt_cuda_conv_args *a)
{
    const tt_cuda_conv_desc &d = conv->d;
    tt_cuda_sum_args s = {};
    s.n_in = 1;
    s.n = count_w(d);
    s.in_type = d.type;
    s.y_type = TT_F32;
    s.accumulate = a->accumulate;
    s.in[0] = low;
    s.y = a->w;
    return tt_cuda_sum(conv->cuda, &s);
}

// Makes the copies that the plan wants (padded x, bias in 16 bits) at the start of the
// scratch memory; the plan's workspace begins after them.
static const char *copy_inputs(tt_cuda_conv *conv, const tt_cuda_conv_args *a,
                               tt_cuda_conv_args *b)
{
    const tt_cuda_conv_desc &d = conv->d;
    char *at = (char *)b->scratch;
    if (casts_bias(conv)) {
        b->bias = at;
        at += bias_bytes(conv);
        TRY(cast_bias(conv, a->bias, (void *)b->bias));
    }
    if (copy_bytes(d) > 0) {
        b->x = at;
        at += copy_bytes(d);
        TRY(pad_x(conv, a->x, b->x));
    }
    b->scratch = at;
    return NULL;
}

static const char *run_plan(tt_cuda_conv *conv, const tt_cuda_conv_args *a)
{
    const tt_cuda_conv_desc &d = conv->d;
    tt_cuda_conv_args b = *a;
    const bool is_w = d.way == TT_CUDA_GRAD_W;
    const bool is_direct = is_w && d.type == TT_F32 && !a->accumulate;
    char *scratch = (char *)align((int64_t)(uintptr_t)a->scratch);
    b.scratch = scratch + weight_bytes(d);
    if (weight_bytes(d) > 0 && !is_direct)
        b.w = scratch;
    TRY(copy_inputs(conv, a, &b));
    TRY(tt_dnn_run(conv->plan, &b));
    return is_w && !is_direct ? add_gradient(conv, b.w, a) : NULL;
}

extern "C" const char *tt_cuda_conv_run(tt_cuda_conv *conv,
                                        const tt_cuda_conv_args *args)
{
    // cuDNN reads and writes 16 bytes at a time; parts of a block of weights may
    // begin anywhere.
    const bool is_plan = conv->plan != NULL && is_aligned(args->x) &&
                         is_aligned(args->w) && is_aligned(args->y) &&
                         is_aligned(args->bias);
    const bool is_few =
        conv->is_few && is_aligned(args->x) && is_aligned(args->y);
    if (conv->gemm != NULL)
        TRY(run_gemm(conv, args));
    else if (is_few)
        TRY(tt_cuda_conv_few(conv->cuda, conv->d, args));
    else if (is_plan)
        TRY(run_plan(conv, args));
    else
        TRY(tt_cuda_conv_plain(conv->cuda, &conv->d, args));
    const bool is_whole =
        conv->is_whole && (is_plan || is_few || conv->gemm != NULL);
    if (is_whole || (args->bias == NULL && !conv->d.has_relu))
        return NULL;
    const void *bias = conv->gemm != NULL ? NULL : args->bias; // it has it
    return tt_cuda_conv_finish(conv->cuda, &conv->d, bias, args->y);
}

extern "C" int64_t tt_cuda_conv_scratch(const tt_cuda_conv *conv)
{
    if (conv->gemm != NULL)
        return tt_cuda_gemm_scratch(conv->gemm) +
               (has_patches(conv->d) ? patch_bytes(conv->d) + 256 : 0);
    const int64_t plain = tt_cuda_conv_plain_scratch(&conv->d);
    const int64_t few =
        conv->is_few ? tt_cuda_conv_few_scratch(conv->cuda, conv->d) : 0;
    if (conv->plan == NULL)
        return few > plain ? few : plain;
    const int64_t bytes = weight_bytes(conv->d) + bias_bytes(conv) +
                          copy_bytes(conv->d) + tt_dnn_bytes(conv->plan) + 512;
    return bytes > plain ? bytes : plain;
}

extern "C" void tt_cuda_conv_destroy(tt_cuda_conv *conv)
{
    if (conv->gemm != NULL)
        tt_cuda_gemm_destroy(conv->gemm);
    if (conv->plan != NULL)
        tt_dnn_destroy(conv->plan);
    delete conv;
}

// ---- making ----------------------------------------------------------------

tt_cuda_conv *tt_cuda_conv_blank(tt_cuda *cuda, const tt_cuda_conv_desc &d)
{
    tt_cuda_conv *conv = new (std::nothrow) tt_cuda_conv();
    if (conv != NULL) {
        conv->cuda = cuda;
        conv->d = d;
        conv->is_whole = !d.has_relu && !has_bias(d);
    }
    return conv;
}

tt_cuda_conv *tt_cuda_conv_with_gemm(tt_cuda *cuda, const tt_cuda_conv_desc &d)
{
    tt_cuda_conv *conv = is_product(d) ? tt_cuda_conv_blank(cuda, d) : NULL;
    if (conv == NULL)
        return NULL;
    conv->is_whole = !d.has_relu;
    if (make_gemm(conv) == NULL && conv->gemm != NULL)
        return conv;
    tt_cuda_conv_destroy(conv);
    return NULL;
}

tt_cuda_conv *tt_cuda_conv_with_few(tt_cuda *cuda, const tt_cuda_conv_desc &d)
{
    tt_cuda_conv *conv =
        tt_cuda_conv_few_can(d) ? tt_cuda_conv_blank(cuda, d) : NULL;
    if (conv != NULL)
        conv->is_few = conv->is_whole = true;
    return conv;
}

tt_cuda_conv *tt_cuda_conv_with_plan(tt_cuda *cuda, const tt_cuda_conv_desc &d,
                                     tt_dnn_menu *menu, int i, int *number_out)
{
    tt_dnn_plan *plan = tt_dnn_take(menu, i, number_out);
    tt_cuda_conv *conv = plan != NULL ? tt_cuda_conv_blank(cuda, d) : NULL;
    if (conv != NULL) {
        conv->plan = plan;
        conv->is_whole = tt_dnn_is_whole(plan);
    } else if (plan != NULL) {
        tt_dnn_destroy(plan);
    }
    return conv;
}
