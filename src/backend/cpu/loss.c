// loss - softmax, cross-entropy, correct, and the parts of cross-entropy for a split
// vocabulary. Rows are computed in parallel; their losses are summed in the order of
// the rows, so that the sum does not depend on threads.

#include "ops/nn/loss.h"

#include "backend/cpu/wrap.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

// ---- softmax -------------------------------------------------------------

static bool can_softmax(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "t", "t");
}

static tt_simd_softmax_args describe_softmax(const tt_site *site)
{
    return (tt_simd_softmax_args){
        .type = tt__simd_type_of(site->in[0].dtype),
        .rows = tt__site_rows(site),
        .cols = tt__site_cols(site),
    };
}

static tt_status run_softmax(void *state, const tt_site *site,
                             const tt_args *args)
{
    (void)state;
    tt_simd_softmax_args a = describe_softmax(site);
    a.x = args->in[0];
    a.y = args->out[0];
    tt_simd_get()->loss->softmax(&a);
    return TT_OK;
}

static tt_status run_softmax_grad(void *state, const tt_site *site,
                                  const tt_args *args)
{
    (void)state;
    tt_simd_softmax_args a = describe_softmax(site);
    a.y = (void *)(uintptr_t)args->in[0];
    a.d_y = args->in[1];
    a.d_x = args->out[0];
    tt_simd_get()->loss->softmax_backward(&a);
    return TT_OK;
}

// ---- cross-entropy -------------------------------------------------------

static int64_t vocab_of(const tt_site *site)
{
    const tt_local *x = &site->in[0].local;
    return tt_position_extent(x, x->shape.ndim - 1);
}

static bool can_cross_entropy(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ti", "f") &&
           vocab_of(site) == tt__site_cols(site);
}

static bool can_cross_entropy_grad(const tt_backend *backend,
                                   const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "tiff", "t");
}

static int64_t labels_bytes(const tt_site *site)
{
    return tt__round64(tt__site_rows(site) * (int64_t)sizeof(int32_t));
}

static tt_status prepare_cross_entropy(tt_backend *backend, tt_site *site,
                                       tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes =
        labels_bytes(site) + tt__site_rows(site) * (int64_t)sizeof(float);
    return TT_OK;
}

static tt_status prepare_labels(tt_backend *backend, tt_site *site,
                                tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes = labels_bytes(site);
    return TT_OK;
}

// Writes the local columns of the labels to scratch: -1 where the row does not count,
// and the number of columns where the label is in another rank's slice.
static tt_status localise(const tt_site *site, const tt_args *args)
{
    const tt_cross_entropy_params *p = site->params;
    const tt_local *x = &site->in[0].local;
    const int64_t rows = tt__site_rows(site), vocab = vocab_of(site);
    const int32_t cols = (int32_t)tt__site_cols(site);
    const int32_t *labels = args->in[1];
    int32_t *local = args->scratch;
    for (int64_t r = 0; r < rows; r++) {
        if (labels[r] == p->ignore) {
            local[r] = -1;
            continue;
        }
        if (labels[r] < 0 || labels[r] >= vocab)
            return tt_fail(TT_ERR_ARG, "%s: label %ld is not in 0..%lld",
                           site->origin, (long)labels[r], (long long)vocab - 1);
        const int64_t at = tt_position_local(x, x->shape.ndim - 1, labels[r]);
        local[r] = at < 0 ? cols : (int32_t)at;
    }
    return TT_OK;
}

static tt_simd_cross_entropy_args describe(const tt_site *site,
                                           const tt_args *args)
{
    const tt_cross_entropy_params *p = site->params;
    return (tt_simd_cross_entropy_args){
        .type = tt__simd_type_of(site->in[0].dtype),
        .rows = tt__site_rows(site),
        .cols = tt__site_cols(site),
        .smoothing = (float)p->smoothing,
        .logits = args->in[0],
        .labels = args->scratch,
    };
}

static tt_status run_cross_entropy(void *state, const tt_site *site,
                                   const tt_args *args)
{
    (void)state;
    TT_TRY(localise(site, args));
    tt_simd_cross_entropy_args a = describe(site, args);
    a.loss = (float *)(void *)((char *)args->scratch + labels_bytes(site));
    a.lse = args->out[2];
    double sum;
    int64_t count;
    tt_simd_get()->loss->cross_entropy(&a);
    tt_simd_get()->loss->total(&a, &sum, &count);
    *(float *)args->out[0] = (float)sum;
    *(float *)args->out[1] = (float)count;
    return TT_OK;
}

static tt_status run_cross_entropy_grad(void *state, const tt_site *site,
                                        const tt_args *args)
{
    (void)state;
    TT_TRY(localise(site, args));
    tt_simd_cross_entropy_args a = describe(site, args);
    a.lse = (float *)(uintptr_t)args->in[2];
    a.scale = (float)tt__scalar_of(site, args, 3);
    a.d_logits = args->out[0];
    a.vocab = vocab_of(site);
    tt_simd_get()->loss->cross_entropy_backward(&a);
    return TT_OK;
}

// ---- slices of the vocabulary --------------------------------------------

static bool can_row_max(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "t", "f");
}

static bool can_loss_terms(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "tif", "f");
}

static tt_simd_slice_args describe_slice(const tt_site *site,
                                         const tt_args *args)
{
    return (tt_simd_slice_args){
        .type = tt__simd_type_of(site->in[0].dtype),
        .rows = tt__site_rows(site),
        .cols = tt__site_cols(site),
        .vocab = vocab_of(site),
        .logits = args->in[0],
    };
}

static tt_status run_row_max(void *state, const tt_site *site,
                             const tt_args *args)
{
    (void)state;
    tt_simd_slice_args a = describe_slice(site, args);
    a.tops = args->out[0];
    tt_simd_get()->loss->slice_top(&a);
    return TT_OK;
}

static tt_status run_loss_terms(void *state, const tt_site *site,
                                const tt_args *args)
{
    (void)state;
    const tt_cross_entropy_params *p = site->params;
    TT_TRY(localise(site, args));
    tt_simd_slice_args a = describe_slice(site, args);
    a.smoothing = (float)p->smoothing;
    a.labels = args->scratch;
    a.tops = (float *)(uintptr_t)args->in[2];
    a.sums = args->out[0];
    a.targets = args->out[1];
    tt_simd_get()->loss->slice_terms(&a);
    return TT_OK;
}

// ---- correct -------------------------------------------------------------

static bool can_correct(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ti", "f");
}

static tt_status prepare_correct(tt_backend *backend, tt_site *site,
                                 tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes = tt__site_rows(site);
    return TT_OK;
}

static tt_status run_correct(void *state, const tt_site *site,
                             const tt_args *args)
{
    (void)state;
    const tt_simd_hits_args a = {
        .type = tt__simd_type_of(site->in[0].dtype),
        .rows = tt__site_rows(site),
        .cols = tt__site_cols(site),
        .x = args->in[0],
        .labels = args->in[1],
        .is_hit = args->scratch,
    };
    tt_simd_get()->score->hits(&a);
    int64_t n = 0;
    for (int64_t r = 0; r < a.rows; r++)
        n += a.is_hit[r];
    *(float *)args->out[0] = (float)n;
    return TT_OK;
}

static bool can_correct_terms(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    const tt_local *x = &site->in[0].local;
    int64_t first;
    return tt__site_has_types(site, "tif", "f") &&
           tt__is_run(x, x->shape.ndim - 1, &first);
}

static tt_status run_correct_terms(void *state, const tt_site *site,
                                   const tt_args *args)
{
    (void)state;
    const tt_local *x = &site->in[0].local;
    tt_simd_marks_args a = {
        .type = tt__simd_type_of(site->in[0].dtype),
        .rows = tt__site_rows(site),
        .cols = tt__site_cols(site),
        .x = args->in[0],
        .labels = args->in[1],
        .tops = args->in[2],
        .marks = args->out[0],
    };
    (void)tt__is_run(x, x->shape.ndim - 1, &a.first);
    tt_simd_get()->score->marks(&a);
    return TT_OK;
}

const tt_kernel_def tt__cpu_loss_kernels[] = {
    {TT_KERNEL(cpu, softmax), .in_place = true, .can = can_softmax,
     .run = run_softmax},
    {TT_KERNEL(cpu, softmax_grad), .in_place = true, .can = can_softmax,
     .run = run_softmax_grad},
    {TT_KERNEL(cpu, cross_entropy), .can = can_cross_entropy,
     .prepare = prepare_cross_entropy, .run = run_cross_entropy},
    {TT_KERNEL(cpu, cross_entropy_grad), .in_place = true,
     .can = can_cross_entropy_grad, .prepare = prepare_labels,
     .run = run_cross_entropy_grad},
    {TT_KERNEL(cpu, row_max), .can = can_row_max, .run = run_row_max},
    {TT_KERNEL(cpu, loss_terms), .can = can_loss_terms,
     .prepare = prepare_labels, .run = run_loss_terms},
    {TT_KERNEL(cpu, correct), .can = can_correct, .prepare = prepare_correct,
     .run = run_correct},
    {TT_KERNEL(cpu, correct_terms), .can = can_correct_terms,
     .run = run_correct_terms},
    {0},
};
