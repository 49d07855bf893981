// gemm - an operator's matrix product with its epilogue (bias, GELU or its gradient,
// sums over k for a bias gradient), done in the fastest of three ways:
//
//   1. cuBLASLt, and a kernel of its own for the epilogue
//   2. cuBLASLt with the epilogue fused, where it has one
//   3. a kernel of ours (gemm_own.cuh), where one takes the shape
//
// Fusing saves a pass over the result, but is not always faster: cuBLASLt's epilogue
// for bias sums costs 25 to 40% of the product. So each is measured against the one
// before (gemm_pays), and must give the same result to rounding.

#include "backend/cuda/dev/gemm/gemm_own.cuh"

#include <new>

extern "C" void tt_cuda_gemm_destroy(tt_cuda_gemm *gemm)
{
    if (gemm == NULL)
        return;
    gemm_product_destroy(gemm->product);
    delete gemm;
}

// The matrix whose sums over k are wanted, as arguments of the reduction kernel.
static tt_cuda_reduce_args sums_of(const tt_cuda_gemm_desc &d)
{
    tt_cuda_reduce_args r = {};
    r.outer = 1;
    r.length = d.k;
    r.inner = d.sums == TT_CUDA_SUMS_OF_B ? d.n : d.m;
    r.by = 1;
    r.x_type = d.sums == TT_CUDA_SUMS_OF_B ? d.b.type : d.a.type;
    r.y_type = TT_F32;
    return r;
}

static tt_cuda_gemm *make(tt_cuda *cuda, const tt_cuda_gemm_desc &desc,
                          bool is_fused, const char **error_out)
{
    tt_cuda_gemm *g = new (std::nothrow) tt_cuda_gemm();
    if (g == NULL) {
        *error_out = tt_cuda_failed_text("no memory");
        return NULL;
    }
    tt_cuda_gemm_desc d = desc;
    if (!is_fused) {
        d.has_gelu = d.has_gelu_grad = false;
        d.sums = TT_CUDA_NO_SUMS;
    }
    g->cuda = cuda;
    g->desc = desc;
    g->is_fused = is_fused;
    g->product = gemm_product_create(cuda, d, error_out);
    if (g->product == NULL) {
        tt_cuda_gemm_destroy(g);
        return NULL;
    }
    g->scratch_bytes = g->product->scratch_bytes;
    if (!is_fused && desc.sums != TT_CUDA_NO_SUMS) {
        const tt_cuda_reduce_args r = sums_of(desc);
        const int64_t bytes = tt_cuda_reduce_scratch(&r);
        g->scratch_bytes = bytes > g->scratch_bytes ? bytes : g->scratch_bytes;
    }
    return g;
}

// By the library: with the epilogue or without.
static const char *make_best(tt_cuda *cuda, const tt_cuda_gemm_desc &desc,
                             tt_cuda_gemm **gemm_out)
{
    const char *error = NULL;
    *gemm_out = make(cuda, desc, false, &error);
    if (*gemm_out == NULL || !has_epilogue(desc))
        return error;
    // No error if there is no such epilogue.
    tt_cuda_gemm *with = make(cuda, desc, true, &error);
    if (with == NULL)
        return NULL;
    // Small products are not measured: fewer launches are better for them.
    const bool is_better = gemm_pays("epilogue", with, *gemm_out, true);
    tt_cuda_gemm_destroy(is_better ? *gemm_out : with);
    if (is_better)
        *gemm_out = with;
    return NULL;
}

extern "C" const char *tt_cuda_gemm_create(tt_cuda *cuda,
                                           const tt_cuda_gemm_desc *desc,
                                           tt_cuda_gemm **gemm_out)
{
    TRY(make_best(cuda, *desc, gemm_out));
    const gemm_own *ours = gemm_own_for(cuda, *desc);
    if (*gemm_out == NULL || ours == NULL)
        return NULL;
    const int64_t bytes = ours->scratch(cuda, *desc);
    tt_cuda_gemm own = **gemm_out;
    own.own = ours;
    own.scratch_bytes = bytes > own.scratch_bytes ? bytes : own.scratch_bytes;
    if (gemm_pays("own", &own, *gemm_out, desc->is_exact))
        **gemm_out = own;
    return NULL;
}

extern "C" int64_t tt_cuda_gemm_scratch(const tt_cuda_gemm *gemm)
{
    return gemm->scratch_bytes;
}

// An unfused epilogue: y = f(a, b) for each element that the product wrote.
static const char *apply(tt_cuda_gemm *g, tt_cuda_fn fn, const void *a,
                         const void *b, void *y)
{
    tt_cuda_map_args m = {};
    m.fn = fn;
    m.type = g->desc.c.type;
    m.n = g->desc.batch * g->desc.m * g->desc.n;
    m.a = a;
    m.b = b;
    m.y = y;
    return tt_cuda_map(g->cuda, &m);
}

static bool has_even_addresses(const tt_cuda_gemm_args *x)
{
    return is_aligned(x->a) && is_aligned(x->b) && is_aligned(x->c) &&
           is_aligned(x->aux) && is_aligned(x->z) && is_aligned(x->plus);
}

extern "C" const char *tt_cuda_gemm_run(tt_cuda_gemm *gemm,
                                        const tt_cuda_gemm_args *args)
{
    const tt_cuda_gemm_desc &d = gemm->desc;
    if (gemm->own != NULL && has_even_addresses(args))
        return gemm->own->run(gemm->cuda, d, args);
    if (gemm->is_fused || !has_epilogue(d))
        return gemm_product_run(gemm->product, args);
    tt_cuda_gemm_args x = *args;
    if (d.has_gelu)
        x.c = args->aux;
    TRY(gemm_product_run(gemm->product, &x));
    if (d.has_gelu)
        return apply(gemm, TT_CUDA_GELU_TANH, args->aux, NULL, args->c);
    if (d.has_gelu_grad)
        return apply(gemm, TT_CUDA_GELU_TANH_GRAD, args->z, args->c, args->c);
    tt_cuda_reduce_args r = sums_of(d);
    r.x = d.sums == TT_CUDA_SUMS_OF_B ? args->b : args->a;
    r.y = args->sums;
    r.scratch = args->scratch;
    return tt_cuda_reduce(gemm->cuda, &r);
}
