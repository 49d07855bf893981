// embed - embedding tables, positions, rotary embedding. A kernel cannot return an
// error: for an id outside the table it takes row 0 and notes a fault, and the next
// read of the device reports it.

#include "ops/nn/embed.h"

#include "backend/cuda/cuda.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

// ---- embedding: bound by writing y; its gradient by reading dy -------------

static bool describe(const tt_site *site, const tt_local *table,
                     tt_cuda_embed_args *out)
{
    *out = (tt_cuda_embed_args){
        .n = tt_operand_count(&site->in[0]),
        .width = tt_shape_dim(&table->shape, 1),
        .vocab = tt_position_extent(table, 0),
        .local = tt_shape_dim(&table->shape, 0),
    };
    return tt__is_run(table, 0, &out->first);
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    tt_cuda_embed_args a;
    return tt__site_has_types(site, "iy", "y") &&
           site->in[1].dtype == site->out[0].dtype &&
           describe(site, &site->in[1].local, &a);
}

static bool can_grad(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    tt_cuda_embed_args a;
    return tt__site_has_types(site, "iy", "f") &&
           describe(site, &site->out[0].local, &a);
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    tt_cuda_embed_args a;
    (void)describe(site, &site->in[1].local, &a);
    a.type = site->out[0].dtype;
    a.ids = args->in[0];
    a.table = args->in[1];
    a.y = args->out[0];
    return TT__CUDA(state, embed, &a);
}

static tt_status prepare_grad(tt_backend *backend, tt_site *site,
                              tt_prepared *prepared_out)
{
    tt_cuda_embed_args a;
    (void)describe(site, &site->out[0].local, &a);
    prepared_out->scratch_bytes = tt__cuda_of(backend)->api->embed_scratch(&a);
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_status run_grad(void *state, const tt_site *site, const tt_args *args)
{
    tt_cuda_embed_args a;
    (void)describe(site, &site->out[0].local, &a);
    a.type = site->in[1].dtype;
    a.ids = args->in[0];
    a.dy = args->in[1];
    a.dtable = args->out[0];
    a.accumulate = args->accumulate;
    a.scratch = args->scratch;
    return TT__CUDA(state, embed_grad, &a);
}

// ---- positions -----------------------------------------------------------

static bool describe_position(const tt_site *site, const tt_local *table,
                              tt_cuda_position_args *out)
{
    const tt_local *x = &site->in[0].local;
    const int d = x->shape.ndim - 2;
    const int64_t width = tt_shape_dim(&x->shape, d + 1);
    const int64_t seq = tt_shape_dim(&x->shape, d);
    tt__site_runs runs;
    const bool are_runs = tt__are_runs(x, d, &runs);
    *out = (tt_cuda_position_args){
        .type = site->in[0].dtype,
        .batch = tt_shape_count(&x->shape) / (seq * width),
        .seq = seq,
        .width = width,
        .rows = tt_shape_dim(&table->shape, 0),
        .first = runs.first,
        .turn = runs.turn,
        .gap = runs.gap,
    };
    return are_runs && tt_position_extent(table, 0) == out->rows;
}

static bool can_position(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    tt_cuda_position_args a;
    return tt__site_has_types(site, "ssI", "s") &&
           describe_position(site, &site->in[1].local, &a);
}

static bool can_position_grad(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    tt_cuda_position_args a;
    return tt__site_has_types(site, "yyI", "f") &&
           describe_position(site, &site->out[0].local, &a);
}

static tt_status run_position(void *state, const tt_site *site,
                              const tt_args *args)
{
    tt_cuda_position_args a;
    (void)describe_position(site, &site->in[1].local, &a);
    a.position = tt_site_has(site, 2) ? args->in[2] : NULL;
    a.x = args->in[0];
    a.table = args->in[1];
    a.y = args->out[0];
    return TT__CUDA(state, position, &a);
}

static tt_status run_position_grad(void *state, const tt_site *site,
                                   const tt_args *args)
{
    tt_cuda_position_args a;
    (void)describe_position(site, &site->out[0].local, &a);
    a.position = tt_site_has(site, 2) ? args->in[2] : NULL;
    a.x = args->in[0];
    a.dtable = args->out[0];
    a.accumulate = args->accumulate;
    return TT__CUDA(state, position_grad, &a);
}

// ---- rotary --------------------------------------------------------------

static bool describe_rotary(const tt_site *site, tt_cuda_rotary_args *out)
{
    const tt_rotary_params *p = site->params;
    const tt_local *x = &site->in[0].local;
    const int d = x->shape.ndim - 3;
    const tt_rotary_turns turns =
        tt_rotary_turns_of(p, tt_shape_dim(&x->shape, d + 2));
    tt__site_runs runs;
    const bool are_runs = tt__are_runs(x, d, &runs);
    *out = (tt_cuda_rotary_args){
        .type = site->in[0].dtype,
        .seq = tt_shape_dim(&x->shape, d),
        .heads = tt_shape_dim(&x->shape, d + 1),
        .head = tt_shape_dim(&x->shape, d + 2),
        .first = runs.first,
        .turn = runs.turn,
        .gap = runs.gap,
        .theta = turns.theta,
        .factor = turns.factor,
        .amplitude = turns.amplitude,
        .at = turns.at,
        .per_pair = turns.per_pair,
        .per_frequency = turns.per_frequency,
        .inverse = p->inverse,
    };
    out->batch =
        tt_shape_count(&x->shape) / (out->seq * out->heads * out->head);
    return are_runs;
}

static bool can_rotary(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    tt_cuda_rotary_args a;
    return tt__site_has_types(site, "sI", "s") && describe_rotary(site, &a);
}

static tt_status run_rotary(void *state, const tt_site *site,
                            const tt_args *args)
{
    tt_cuda_rotary_args a;
    (void)describe_rotary(site, &a);
    a.position = tt_site_has(site, 1) ? args->in[1] : NULL;
    a.x = args->in[0];
    a.y = args->out[0];
    return TT__CUDA(state, rotary, &a);
}

const tt_kernel_def tt__cuda_embed_kernels[] = {
    {TT__CUDA_KERNEL(embedding), .can = can, .run = run},
    {TT_KERNEL(cuda, embedding_grad), .accumulates = true, .can = can_grad,
     .prepare = prepare_grad, .run = run_grad},
    {TT__CUDA_KERNEL(position_embedding), .in_place = true, .can = can_position,
     .run = run_position},
    {TT__CUDA_KERNEL(position_embedding_grad), .accumulates = true,
     .can = can_position_grad, .run = run_position_grad},
    {TT__CUDA_KERNEL(rotary), .in_place = true, .can = can_rotary,
     .run = run_rotary},
    {0},
};
