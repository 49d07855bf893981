// conv_grad_b - sums dy per channel, in whatever blocks of channels it has.

#include "backend/cpu/conv_parts.h"
#include "backend/cpu/wrap.h"
#include "base/alloc.h"
#include "ops/ops.h"

typedef struct state {
    tt_simd_channels_args args;
    float zero[]; // per channel: the sums are those of dy - 0
} state;

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__cpu_is_fast(site->in[0].dtype);
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    const tt_operand *dy = &site->in[0];
    const int64_t channels = tt_operand_dim(dy, 1);
    const int64_t samples = tt_operand_dim(dy, 0);
    const int64_t block =
        tt__dnnl_layout_channel_block(tt__cpu_dnnl(backend), dy->layout);
    if (block == 0 || channels % block != 0)
        return TT_ERR_UNSUPPORTED;
    state *s = tt_alloc((int64_t)sizeof(*s) + channels * 4);
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "conv_grad_b: no memory for a kernel");
    tt_operand_set_dense(&site->out[0]);
    s->args = (tt_simd_channels_args){
        .type = tt__simd_type_of(dy->dtype),
        .samples = samples,
        .channels = channels,
        .points = tt_operand_count(dy) / channels / samples,
        .block = block,
    };
    prepared_out->state = s;
    prepared_out->scratch_bytes =
        tt__round64(2 * channels * 8) +
        tt_simd_get()->channels->scratch_bytes(&s->args);
    return TT_OK;
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    (void)site;
    const state *s = kernel_state;
    tt_simd_channels_args a = s->args;
    float *db = args->out[0];
    a.x = args->in[0];
    a.shift = s->zero;
    a.sums = args->scratch;
    a.scratch = (char *)args->scratch + tt__round64(2 * a.channels * 8);
    tt_simd_get()->channels->moments(&a);
    for (int64_t c = 0; c < a.channels; c++)
        db[c] = (float)(a.sums[c] + (args->accumulate ? (double)db[c] : 0.0));
    return TT_OK;
}

const tt_kernel_def tt__cpu_conv_grad_b_kernels[] = {
    {TT_KERNEL(cpu, conv_grad_b), .accumulates = true, .can = can,
     .prepare = prepare, .run = run},
    {0},
};
