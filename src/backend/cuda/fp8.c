// fp8 - fp8_pack, fp8_pack_grad, matmul_fp8, and the scalars that make units (scales).
// Products are cuBLASLt's, which reads units from the device's memory. Sums of forward
// products are "fast": they have the bits that tensor cores keep at full speed. Those
// of gradients are f32 ("slow"). See dev/gemm/fp8.cu.

#include "ops/codec/fp8.h"

#include "backend/cuda/cuda.h"
#include "base/alloc.h"
#include "ops/ops.h"

// ---- fp8_pack: bound by memory bandwidth ----------------------------------

static bool can_fp8_pack(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    const tt_dtype x = site->in[TT_Q_X].dtype;
    return tt__site_is_plain(site) && (x == TT_F32 || tt__is_low(x)) &&
           site->in[TT_Q_UNITS].dtype == TT_F32;
}

static tt_status prepare_fp8_pack(tt_backend *backend, tt_site *site,
                                  tt_prepared *prepared_out)
{
    const tt__cuda_device *device = tt__cuda_of(backend);
    TT_TRY(tt__cuda_status(device->api->fp8_pack_open(device->cuda)));
    return tt__cuda_prepare(backend, site, prepared_out);
}

// Without addresses; outputs of the packing from `first` on.
static tt_cuda_fp8_pack_args packing(const tt_site *site, int first)
{
    const tt_fp8_pack_params *p = site->params;
    const tt_dtype to = site->out[first + TT_Q_ROWS].dtype;
    return (tt_cuda_fp8_pack_args){.type = site->in[TT_Q_X].dtype,
                                   .to = to,
                                   .rows = tt__site_rows(site),
                                   .cols = tt__site_cols(site),
                                   .largest = tt_dtype_largest(to),
                                   .is_gelu = p->is_gelu};
}

static void bind(const tt_site *site, const tt_args *args, int first,
                 tt_cuda_fp8_pack_args *a)
{
    const tt_fp8_pack_params *p = site->params;
    a->x = args->in[TT_Q_X];
    a->unit = (const float *)args->in[TT_Q_UNITS] + p->site;
    a->straight = args->out[first + TT_Q_ROWS];
    a->turned = args->out[first + TT_Q_TURNED];
    a->peak = args->out[first + TT_Q_PEAK];
}

static tt_status run_fp8_pack(void *state, const tt_site *site,
                              const tt_args *args)
{
    tt_cuda_fp8_pack_args a = packing(site, 0);
    bind(site, args, 0, &a);
    return TT__CUDA(state, fp8_pack, &a);
}

static bool can_fp8_pack_grad(const tt_backend *backend, const tt_site *site)
{
    const tt_fp8_pack_params *p = site->params;
    return can_fp8_pack(backend, site) && !p->is_gelu;
}

static tt_status prepare_fp8_pack_grad(tt_backend *backend, tt_site *site,
                                       tt_prepared *prepared_out)
{
    const tt_cuda_fp8_pack_args a = packing(site, TT_QG_ROWS);
    TT_TRY(prepare_fp8_pack(backend, site, prepared_out));
    prepared_out->scratch_bytes =
        tt__cuda_of(backend)->api->fp8_pack_scratch(&a);
    return TT_OK;
}

static tt_status run_fp8_pack_grad(void *state, const tt_site *site,
                                   const tt_args *args)
{
    tt_cuda_fp8_pack_args a = packing(site, TT_QG_ROWS);
    bind(site, args, TT_QG_ROWS, &a);
    a.z = tt_site_has(site, TT_QG_Z) ? args->in[TT_QG_Z] : NULL;
    a.sums = args->out[TT_QG_SUMS];
    a.accumulate = args->accumulate;
    a.scratch = args->scratch;
    return TT__CUDA(state, fp8_pack, &a);
}

// ---- products: bound by the tensor cores -----------------------------------

typedef struct state {
    const tt__cuda_device *device;
    tt_cuda_gemm *gemm;
} state;

static void release(void *kernel_state)
{
    state *s = kernel_state;
    if (s != NULL && s->gemm != NULL)
        s->device->api->gemm_destroy(s->gemm);
    tt_free(s);
}

// cuBLASLt has no product of two e5m2 operands, the type of gradients.
static bool can_matmul(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    const bool is_gradients = site->in[TT_M8_A].dtype == TT_E5M2 &&
                              site->in[TT_M8_B].dtype == TT_E5M2;
    return tt__site_is_plain(site) && !is_gradients &&
           site->in[TT_M8_UNITS].dtype == TT_F32 &&
           (!tt_site_has(site, TT_M8_BIAS) ||
            (site->in[TT_M8_BIAS].dtype != TT_F64 &&
             site->out[0].dtype == TT_BF16));
}

static tt_cuda_gemm_desc describe(const tt_site *site)
{
    const tt_operand *a = &site->in[TT_M8_A], *b = &site->in[TT_M8_B];
    const int64_t n = tt_operand_dim(b, 0), k = tt_operand_dim(b, 1);
    const bool has_bias = tt_site_has(site, TT_M8_BIAS);
    return (tt_cuda_gemm_desc){
        .batch = 1,
        .m = tt_operand_count(a) / k,
        .n = n,
        .k = k,
        .a = {a->dtype, k, 1, 0},
        .b = {b->dtype, 1, k, 0},
        .c = {site->out[0].dtype, n, 1, 0},
        .bias_type = has_bias ? site->in[TT_M8_BIAS].dtype : TT_N_DTYPES,
        .adds = site->out[0].dtype == TT_F32,
        .has_plus = tt_site_has(site, TT_M8_PLUS),
        .is_fast = a->dtype == TT_E4M3 && b->dtype == TT_E4M3};
}

static tt_status prepare_matmul(tt_backend *backend, tt_site *site,
                                tt_prepared *prepared_out)
{
    for (int i = 0; i < site->n_in; i++)
        if (tt_site_has(site, i))
            tt_operand_set_dense(&site->in[i]);
    tt_operand_set_dense(&site->out[0]);
    const tt_cuda_gemm_desc d = describe(site);
    TT_TRY(tt__cuda_state(backend, sizeof(state), prepared_out));
    state *s = prepared_out->state;
    const tt_cuda_api *api = s->device->api;
    tt_status status =
        tt__cuda_status(api->gemm_create(s->device->cuda, &d, &s->gemm));
    if (status == TT_OK && s->gemm == NULL)
        status = TT_ERR_UNSUPPORTED;
    if (status != TT_OK) {
        release(s);
        prepared_out->state = NULL;
        return status;
    }
    prepared_out->scratch_bytes = api->gemm_scratch(s->gemm);
    prepared_out->accumulates = d.adds;
    return TT_OK;
}

static tt_status run_matmul(void *kernel_state, const tt_site *site,
                            const tt_args *args)
{
    const state *s = kernel_state;
    const tt_matmul_fp8_params *p = site->params;
    const float *units = args->in[TT_M8_UNITS];
    const tt_cuda_gemm_args a = {
        .a = args->in[TT_M8_A],
        .b = args->in[TT_M8_B],
        .a_unit = units + p->a_site,
        .b_unit = units + p->b_site,
        .bias = tt_site_has(site, TT_M8_BIAS) ? args->in[TT_M8_BIAS] : NULL,
        .plus = tt_site_has(site, TT_M8_PLUS) ? args->in[TT_M8_PLUS] : NULL,
        .c = args->out[0],
        .accumulate = args->accumulate,
        .scratch = args->scratch};
    return tt__cuda_status(
        s->device->api->gemm_run(s->device->cuda, s->gemm, &a));
}

// ---- numbers -------------------------------------------------------------

static bool can_largest(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "f", "f");
}

static tt_status run_largest(void *kernel_state, const tt_site *site,
                             const tt_args *args)
{
    const tt_cuda_largest_args a = {.n = tt_operand_count(&site->out[0]),
                                    .accumulate = args->accumulate,
                                    .x = args->in[0],
                                    .y = args->out[0]};
    return TT__CUDA(kernel_state, largest, &a);
}

static bool can_units(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "fffu", "f");
}

static tt_status run_units(void *kernel_state, const tt_site *site,
                           const tt_args *args)
{
    const tt_operand *history = &site->in[TT_U8S_HISTORY];
    const tt_operand *units = &site->in[TT_U8S_UNITS];
    const int64_t sites = tt_operand_dim(history, 1);
    const tt_cuda_units_args a = {.steps = tt_operand_dim(history, 0),
                                  .sites = sites,
                                  .apart = tt_operand_count(units) / sites,
                                  .history = args->in[TT_U8S_HISTORY],
                                  .units = args->in[TT_U8S_UNITS],
                                  .peaks = args->in[TT_U8S_PEAKS],
                                  .skip = args->in[TT_U8S_SKIP],
                                  .history_out = args->out[0],
                                  .units_out = args->out[1]};
    return TT__CUDA(kernel_state, fp8_units, &a);
}

const tt_kernel_def tt__cuda_fp8_kernels[] = {
    {TT__CUDA_KERNEL(largest), .accumulates = true, .can = can_largest,
     .run = run_largest},
    {TT__CUDA_KERNEL(fp8_units), .can = can_units, .run = run_units},
    {TT_KERNEL(cuda, fp8_pack), .can = can_fp8_pack,
     .prepare = prepare_fp8_pack, .run = run_fp8_pack},
    {TT_KERNEL(cuda, fp8_pack_grad), .accumulates = true,
     .can = can_fp8_pack_grad, .prepare = prepare_fp8_pack_grad,
     .run = run_fp8_pack_grad},
    {TT_KERNEL(cuda, matmul_fp8), .can = can_matmul, .prepare = prepare_matmul,
     .run = run_matmul, .release = release},
    {0},
};
