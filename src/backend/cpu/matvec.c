// matvec - products of a few rows with a large matrix, as decoding makes them.
//
// Such a product reads the whole matrix once and does little with it, so it is bound by
// memory. oneDNN packs the matrix for every product, which takes longer than the
// product. This kernel reads it where it lies. With more than FEW rows packing pays,
// and matmul.c gets the site.

#include "backend/cpu/cpu.h"
#include "backend/cpu/dnnl/gemm.h"
#include "backend/cpu/simd.h"
#include "backend/cpu/wrap.h"
#include "base/alloc.h"
#include "ops/matmul.h"
#include "ops/ops.h"

enum { X, W, BIAS };
enum { FEW = 8 }; // rows

typedef struct state {
    tt_simd_matvec_args product; // without addresses
    tt_simd_act_args act;
} state;

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    const tt_matmul_params *p = site->params;
    return tt__site_has_types(site, "ttx", "t") && !p->transpose_a &&
           site->in[W].local.shape.ndim == 2 &&
           tt_operand_is_dense(&site->in[W]) && tt__site_rows(site) <= FEW;
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    const tt_matmul_params *p = site->params;
    state *s = tt_alloc(sizeof *s);
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "matmul: no memory for a kernel");
    s->product = (tt_simd_matvec_args){
        .type = tt__simd_type_of(site->in[X].dtype),
        .is_transposed = p->transpose_b,
        .m = tt__site_rows(site),
        .n = tt_operand_dim(&site->in[W], p->transpose_b ? 0 : 1),
        .k = tt__site_cols(site),
        .bias_type = tt_site_has(site, BIAS)
                         ? tt__simd_type_of(site->in[BIAS].dtype)
                         : TT_SIMD_F32,
        .threads = backend->options.n_threads,
    };
    s->act = tt__matmul_act(site);
    prepared_out->state = s;
    prepared_out->scratch_bytes =
        tt_simd_get()->matvec->scratch_bytes(&s->product);
    return TT_OK;
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    const state *s = kernel_state;
    const tt_matmul_params *p = site->params;
    const bool has_act = p->activation != TT_ACT_NONE;
    tt_simd_matvec_args a = s->product;
    a.x = args->in[X];
    a.w = args->in[W];
    a.bias = tt_site_has(site, BIAS) ? args->in[BIAS] : NULL;
    a.y = args->out[has_act ? 1 : 0];
    a.scratch = args->scratch;
    tt_simd_get()->matvec->run(&a);
    if (!has_act)
        return TT_OK;
    tt_simd_act_args act = s->act;
    act.x = args->out[1];
    act.y = args->out[0];
    tt_simd_get()->activation->forward(&act);
    return TT_OK;
}

const tt_kernel_def tt__cpu_matvec_kernels[] = {
    {.name = "cpu.matvec",
     .op = &tt_op_matmul,
     .can = can,
     .prepare = prepare,
     .run = run},
    {0},
};
