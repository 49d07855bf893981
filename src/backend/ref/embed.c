// embed - reference kernels of embedding, position_embedding and rotary.

#include "ops/nn/embed.h"

#include "backend/ref/ref.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

#include <math.h>

// Id number k; an error when the whole table has no such row. A row that is on another
// rank is no error.
static tt_status load_id(const tt_site *site, const tt_args *args, int64_t k,
                         int64_t vocab, int64_t *id_out)
{
    *id_out = (int64_t)tt_dtype_load(site->in[0].dtype, args->in[0], k);
    if (*id_out < 0 || *id_out >= vocab)
        return tt_fail(TT_ERR_ARG, "%s: id %lld is not in 0..%lld",
                       site->origin, (long long)*id_out, (long long)vocab - 1);
    return TT_OK;
}

static tt_status run_embedding(void *state, const tt_site *site,
                               const tt_args *args)
{
    (void)state;
    const tt_operand *w = &site->in[1], *y = &site->out[0];
    const int64_t n = tt_operand_count(&site->in[0]);
    const int64_t width = tt_operand_dim(w, 1);
    for (int64_t k = 0; k < n; k++) {
        int64_t id;
        TT_TRY(load_id(site, args, k, tt_position_extent(&w->local, 0), &id));
        const int64_t row = tt_position_local(&w->local, 0, id);
        for (int64_t i = 0; i < width; i++)
            tt_dtype_store(y->dtype, args->out[0], k * width + i,
                           row < 0 ? 0
                                   : tt_dtype_load(w->dtype, args->in[1],
                                                   row * width + i));
    }
    return TT_OK;
}

static tt_status run_embedding_grad(void *state, const tt_site *site,
                                    const tt_args *args)
{
    (void)state;
    const tt_operand *dy = &site->in[1], *dw = &site->out[0];
    const int64_t n = tt_operand_count(&site->in[0]);
    const int64_t width = tt_operand_dim(dw, 1);
    for (int64_t i = 0; !args->accumulate && i < tt_operand_count(dw); i++)
        tt_dtype_store(dw->dtype, args->out[0], i, 0);
    for (int64_t k = 0; k < n; k++) {
        int64_t id;
        TT_TRY(load_id(site, args, k, tt_position_extent(&dw->local, 0), &id));
        const int64_t row = tt_position_local(&dw->local, 0, id);
        for (int64_t i = 0; row >= 0 && i < width; i++) {
            const int64_t at = row * width + i;
            tt_dtype_store(
                dw->dtype, args->out[0], at,
                tt_dtype_load(dw->dtype, args->out[0], at) +
                    tt_dtype_load(dy->dtype, args->in[1], k * width + i));
        }
    }
    return TT_OK;
}

static int64_t load_position(const tt_site *site, const tt_args *args, int i)
{
    if (!tt_site_has(site, i))
        return 0;
    return (int64_t)tt_dtype_load(site->in[i].dtype, args->in[i], 0);
}

// The table's row of local row k of x [.., seq, embed].
static tt_status position_row(const tt_site *site, const tt_args *args,
                              int64_t k, int64_t *row_out)
{
    const tt_local *x = &site->in[0].local;
    const int d = x->shape.ndim - 2;
    const int64_t s = k % tt_shape_dim(&x->shape, d);
    const int64_t n = tt_position_extent(&site->in[1].local, 0);
    *row_out = tt_position_global(x, d, s) + load_position(site, args, 2);
    if (*row_out < 0 || *row_out >= n)
        return tt_fail(TT_ERR_ARG, "%s: position %lld is not in 0..%lld",
                       site->origin, (long long)*row_out, (long long)n - 1);
    return TT_OK;
}

static tt_status run_position(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    const tt_operand *x = &site->in[0], *w = &site->in[1];
    const int64_t width = tt_operand_dim(w, 1);
    const int64_t n = tt_operand_count(x) / width;
    for (int64_t k = 0; k < n; k++) {
        int64_t row;
        TT_TRY(position_row(site, args, k, &row));
        for (int64_t i = 0; i < width; i++)
            tt_dtype_store(
                site->out[0].dtype, args->out[0], k * width + i,
                tt_dtype_load(x->dtype, args->in[0], k * width + i) +
                    tt_dtype_load(w->dtype, args->in[1], row * width + i));
    }
    return TT_OK;
}

static tt_status run_position_grad(void *state, const tt_site *site,
                                   const tt_args *args)
{
    (void)state;
    const tt_operand *dy = &site->in[0], *dw = &site->out[0];
    const int64_t width = tt_operand_dim(dw, 1);
    const int64_t n = tt_operand_count(dy) / width;
    for (int64_t i = 0; i < tt_operand_count(dw); i++)
        tt_dtype_store(dw->dtype, args->out[0], i, 0);
    for (int64_t k = 0; k < n; k++) {
        int64_t row;
        TT_TRY(position_row(site, args, k, &row));
        for (int64_t i = 0; i < width; i++)
            tt_dtype_store(
                dw->dtype, args->out[0], row * width + i,
                tt_dtype_load(dw->dtype, args->out[0], row * width + i) +
                    tt_dtype_load(dy->dtype, args->in[0], k * width + i));
    }
    return TT_OK;
}

static tt_status run_rotary(void *state, const tt_site *site,
                            const tt_args *args)
{
    (void)state;
    const tt_rotary_params *p = site->params;
    const tt_operand *x = &site->in[0];
    const int d = x->local.shape.ndim - 3;
    const int64_t head = tt_operand_dim(x, d + 2), half = head / 2;
    const int64_t heads = tt_operand_dim(x, d + 1), seq = tt_operand_dim(x, d);
    const int64_t n = tt_operand_count(x) / head;
    const int64_t first = load_position(site, args, 1);
    const tt_rotary_turns turns = tt_rotary_turns_of(p, head);
    for (int64_t k = 0; k < n; k++) {
        const int64_t s =
            tt_position_global(&x->local, d, k / heads % seq) + first;
        for (int64_t i = 0; i < half; i++) {
            const double angle =
                (double)s * tt_rotary_frequency(&turns, i, half);
            const double c = turns.amplitude * cos(angle);
            const double t =
                turns.amplitude * (p->inverse ? -sin(angle) : sin(angle));
            const int64_t lo = k * head + i, hi = lo + half;
            const double a = tt_dtype_load(x->dtype, args->in[0], lo);
            const double b = tt_dtype_load(x->dtype, args->in[0], hi);
            tt_dtype_store(x->dtype, args->out[0], lo, a * c - b * t);
            tt_dtype_store(x->dtype, args->out[0], hi, b * c + a * t);
        }
    }
    return TT_OK;
}

const tt_kernel_def tt__ref_embed_kernels[] = {
    {TT_KERNEL(ref, embedding), .run = run_embedding},
    {TT_KERNEL(ref, embedding_grad), .accumulates = true,
     .run = run_embedding_grad},
    {TT_KERNEL(ref, position_embedding), .run = run_position},
    {TT_KERNEL(ref, position_embedding_grad), .run = run_position_grad},
    {TT_KERNEL(ref, rotary), .run = run_rotary},
    {0},
};
