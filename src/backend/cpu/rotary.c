// rotary - rotary position embedding: turns pairs of entries of each head, in place.
// Cosines and sines come from tables. They are made once and again only when the first
// position changes, as it does in decoding.

#include "backend/cpu/wrap.h"
#include "base/alloc.h"
#include "ops/nn/embed.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

#include <math.h>

typedef struct state {
    int64_t first; // position that the tables start from
    tt_simd_rotary_args args;
    float *cosine, *sine;
    float table[]; // cosines, then sines: [length, half] each
} state;

// Dims of x: [.., seq, heads, head].
static int seq_dim(const tt_site *site)
{
    return site->in[0].local.shape.ndim - 3;
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "tI", "t") && seq_dim(site) <= 1;
}

static void fill_tables(const tt_site *site, state *s)
{
    const tt_local *x = &site->in[0].local;
    const int64_t half = s->args.half;
    const tt_rotary_turns turns = tt_rotary_turns_of(site->params, 2 * half);
    for (int64_t t = 0; t < s->args.length; t++) {
        const double position =
            (double)(tt_position_global(x, seq_dim(site), t) + s->first);
        for (int64_t i = 0; i < half; i++) {
            const double angle =
                position * tt_rotary_frequency(&turns, i, half);
            s->cosine[t * half + i] = (float)(turns.amplitude * cos(angle));
            s->sine[t * half + i] = (float)(turns.amplitude * sin(angle));
        }
    }
}

static void fit(tt_operand *o)
{
    if (o->stride[o->local.shape.ndim - 1] != 1)
        tt_operand_set_dense(o);
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    (void)backend;
    const tt_rotary_params *p = site->params;
    const tt_operand *x = &site->in[0];
    const int d = seq_dim(site);
    const int64_t length = tt_operand_dim(x, d);
    const int64_t half = tt_operand_dim(x, d + 2) / 2, n = length * half;
    fit(&site->in[0]);
    fit(&site->out[0]);
    state *s = tt_alloc((int64_t)sizeof(*s) + 2 * n * (int64_t)sizeof(float));
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "rotary: no memory for a kernel");
    s->first = 0;
    s->cosine = s->table;
    s->sine = s->table + n;
    s->args = (tt_simd_rotary_args){
        .type = tt__simd_type_of(x->dtype),
        .n_batch = d == 1 ? tt_operand_dim(x, 0) : 1,
        .length = length,
        .heads = tt_operand_dim(x, d + 1),
        .half = half,
        .cosine = s->cosine,
        .sine = s->sine,
        .is_inverse = p->inverse,
    };
    fill_tables(site, s);
    prepared_out->state = s;
    return TT_OK;
}

static tt_simd_heads heads_of(const tt_operand *o, int d, const void *base)
{
    return (tt_simd_heads){.data = (void *)(uintptr_t)base,
                           .batch = d == 1 ? o->stride[0] : 0,
                           .head = o->stride[d + 1],
                           .row = o->stride[d]};
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    state *s = kernel_state;
    const int64_t first =
        tt_site_has(site, 1) ? *(const int64_t *)args->in[1] : 0;
    if (first != s->first) {
        s->first = first;
        fill_tables(site, s);
    }
    tt_simd_rotary_args a = s->args;
    a.x = heads_of(&site->in[0], seq_dim(site), args->in[0]);
    a.y = heads_of(&site->out[0], seq_dim(site), args->out[0]);
    tt_simd_get()->rotary->turn(&a);
    return TT_OK;
}

const tt_kernel_def tt__cpu_rotary_kernels[] = {
    {TT_KERNEL(cpu, rotary), .strided_in = 1, .strided_out = 1,
     .in_place = true, .can = can, .prepare = prepare, .run = run},
    {0},
};
