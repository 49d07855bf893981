// embed - tables read by index. Ids of rows on another rank give zeros forward and
// nothing backward.

#include "ops/nn/embed.h"

#include "backend/cpu/wrap.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

#include <string.h>

// ---- embedding -----------------------------------------------------------

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ix", "x") &&
           site->out[0].dtype == site->in[1].dtype;
}

static bool can_grad(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "ix", "f");
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    (void)backend;
    prepared_out->scratch_bytes =
        tt_operand_count(&site->in[0]) * (int64_t)sizeof(int32_t);
    return TT_OK;
}

// Local rows of the ids, -1 where they are on another rank.
static tt_status localise(const tt_site *site, const tt_args *args,
                          const tt_operand *table, bool *is_whole_out)
{
    const int64_t n = tt_operand_count(&site->in[0]);
    const int64_t vocab = tt_position_extent(&table->local, 0);
    const int32_t *ids = args->in[0];
    int32_t *row = args->scratch;
    const bool is_whole = tt_operand_dim(table, 0) == vocab;
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= vocab)
            return tt_fail(TT_ERR_ARG, "%s: id %ld is not in 0..%lld",
                           site->origin, (long)ids[i], (long long)vocab - 1);
        row[i] = is_whole
                     ? ids[i]
                     : (int32_t)tt_position_local(&table->local, 0, ids[i]);
    }
    *is_whole_out = is_whole;
    return TT_OK;
}

static tt_simd_embedding_args describe(const tt_site *site, const tt_args *args,
                                       const tt_operand *table)
{
    return (tt_simd_embedding_args){
        .n_ids = tt_operand_count(&site->in[0]),
        .vocab = tt_operand_dim(table, 0),
        .cols = tt_operand_dim(table, 1),
        .ids = args->scratch,
    };
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_operand *table = &site->in[1];
    bool is_whole;
    TT_TRY(localise(site, args, table, &is_whole));
    tt_simd_embedding_args a = describe(site, args, table);
    a.table_type = a.type = tt__simd_type_of(table->dtype);
    a.table = args->in[1];
    a.y = args->out[0];
    tt_simd_get()->embedding->forward(&a);
    const int64_t bytes = a.cols * tt_dtype_bytes(table->dtype);
    for (int64_t i = 0; !is_whole && i < a.n_ids; i++)
        if (a.ids[i] < 0)
            memset((char *)args->out[0] + i * bytes, 0, (size_t)bytes);
    return TT_OK;
}

static tt_status run_grad(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    bool is_whole;
    TT_TRY(localise(site, args, &site->out[0], &is_whole));
    tt_simd_embedding_args a = describe(site, args, &site->out[0]);
    a.type = tt__simd_type_of(site->in[1].dtype);
    a.d_y = args->in[1];
    a.d_table = args->out[0];
    a.accumulates = args->accumulate;
    tt_simd_get()->embedding->backward(&a);
    return TT_OK;
}

// ---- position_embedding --------------------------------------------------

// The positions of a part are one run of neighbours, or two if the sequence is split in
// a zigzag. Each run of a sample is added to one piece of the table.
static bool has_runs(const tt_site *site)
{
    const tt_local *x = &site->in[0].local;
    tt__site_runs runs;
    return tt__are_runs(x, x->shape.ndim - 2, &runs) &&
           tt_operand_dim(&site->in[1], 0) ==
               tt_position_extent(&site->in[1].local, 0);
}

static bool can_position(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "txI", "t") && has_runs(site);
}

static bool can_position_grad(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "xxI", "f") && has_runs(site);
}

// A run of positions of a sample: it begins `at` positions after the sample's first,
// has `length` of them, and reads the table from row `row` on.
typedef struct stretch {
    int64_t at, length, row;
} stretch;

typedef struct positions {
    int64_t samples, length, width;
    int n;
    stretch run[2];
} positions;

static tt_status find_positions(const tt_site *site, const tt_args *args,
                                positions *p)
{
    const tt_local *x = &site->in[0].local;
    const int d = x->shape.ndim - 2;
    const int64_t n = tt_operand_dim(&site->in[1], 0);
    const int64_t more =
        tt_site_has(site, 2) ? *(const int64_t *)args->in[2] : 0;
    tt__site_runs r;
    p->width = tt_shape_dim(&x->shape, d + 1);
    p->length = tt_shape_dim(&x->shape, d);
    p->samples = tt_shape_count(&x->shape) / (p->width * p->length);
    (void)tt__are_runs(x, d, &r);
    const int64_t turn = r.gap > 0 ? r.turn : p->length;
    const int64_t first = r.first + more;
    const int64_t last = first + p->length - 1 + r.gap;
    p->n = r.gap > 0 ? 2 : 1;
    p->run[0] = (stretch){0, turn, first};
    p->run[1] = (stretch){turn, p->length - turn, first + turn + r.gap};
    if (first < 0 || last >= n)
        return tt_fail(TT_ERR_ARG, "%s: position %lld is not in 0..%lld",
                       site->origin, (long long)(first < 0 ? first : last),
                       (long long)n - 1);
    return TT_OK;
}

// With one run all samples are one call; with two each run of each sample is.
static void add_run(const tt_site *site, const tt_args *args,
                    const positions *p, const stretch *r)
{
    const tt_operand *x = &site->in[0], *w = &site->in[1];
    const int64_t bytes = tt_dtype_bytes(x->dtype), all = p->length * p->width;
    const bool is_all = r->length == p->length;
    for (int64_t s = 0; s < (is_all ? 1 : p->samples); s++) {
        const int64_t at = (s * all + r->at * p->width) * bytes;
        const tt_simd_binary_args a = {
            .op = TT_SIMD_ADD,
            .type = tt__simd_type_of(x->dtype),
            .rows = is_all ? p->samples : 1,
            .cols = r->length * p->width,
            .a = {(const char *)args->in[0] + at, tt__simd_type_of(x->dtype),
                  all, 1},
            .b = {(const char *)args->in[1] +
                      r->row * p->width * tt_dtype_bytes(w->dtype),
                  tt__simd_type_of(w->dtype), 0, 1},
            .y = (char *)args->out[0] + at,
        };
        tt_simd_get()->elementwise->binary(&a);
    }
}

static tt_status run_position(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    positions p;
    TT_TRY(find_positions(site, args, &p));
    for (int i = 0; i < p.n; i++)
        add_run(site, args, &p, &p.run[i]);
    return TT_OK;
}

static int64_t columns_of(const tt_site *site)
{
    const tt_shape *x = &site->in[0].local.shape;
    return tt_shape_dim(x, x->ndim - 1) * tt_shape_dim(x, x->ndim - 2);
}

// The sum over samples, where it goes to two runs of the table.
static int64_t sum_bytes(const tt_site *site)
{
    const tt_local *x = &site->in[0].local;
    tt__site_runs runs;
    (void)tt__are_runs(x, x->shape.ndim - 2, &runs);
    if (runs.gap == 0)
        return 0;
    return tt__round64(columns_of(site)) * (int64_t)sizeof(float);
}

static tt_status prepare_position_grad(tt_backend *backend, tt_site *site,
                                       tt_prepared *prepared_out)
{
    (void)backend;
    const int64_t cols = columns_of(site);
    prepared_out->scratch_bytes =
        sum_bytes(site) +
        tt_simd_get()->reduce->column_sum_scratch_bytes(
            tt_shape_count(&site->in[0].local.shape) / cols, cols);
    return TT_OK;
}

static void add_rows(float *to, const float *from, int64_t n)
{
    const tt_simd_binary_args a = {.op = TT_SIMD_ADD,
                                   .type = TT_SIMD_F32,
                                   .rows = 1,
                                   .cols = n,
                                   .a = {to, TT_SIMD_F32, n, 1},
                                   .b = {from, TT_SIMD_F32, n, 1},
                                   .y = to};
    tt_simd_get()->elementwise->binary(&a);
}

static tt_status run_position_grad(void *state, const tt_site *site,
                                   const tt_args *args)
{
    (void)state;
    positions p;
    float *dw = args->out[0], *sum = args->scratch;
    TT_TRY(find_positions(site, args, &p));
    if (!args->accumulate)
        tt_simd_get()->elementwise->fill(TT_SIMD_F32, dw,
                                         tt_operand_count(&site->out[0]), 0);
    const bool is_direct = p.n == 1;
    const tt_simd_column_args a = {
        .type = tt__simd_type_of(site->in[0].dtype),
        .rows = p.samples,
        .cols = p.length * p.width,
        .x = args->in[0],
        .y = is_direct ? dw + p.run[0].row * p.width : sum,
        .accumulates = is_direct && args->accumulate,
        .scratch = (char *)args->scratch + sum_bytes(site),
    };
    tt_simd_get()->reduce->column_sum(&a);
    for (int i = 0; i < p.n && !is_direct; i++)
        add_rows(dw + p.run[i].row * p.width, sum + p.run[i].at * p.width,
                 p.run[i].length * p.width);
    return TT_OK;
}

const tt_kernel_def tt__cpu_embed_kernels[] = {
    {TT_KERNEL(cpu, embedding), .can = can, .prepare = prepare, .run = run},
    {TT_KERNEL(cpu, embedding_grad), .accumulates = true, .can = can_grad,
     .prepare = prepare, .run = run_grad},
    {TT_KERNEL(cpu, position_embedding), .in_place = true, .can = can_position,
     .run = run_position},
    {TT_KERNEL(cpu, position_embedding_grad), .accumulates = true,
     .can = can_position_grad, .prepare = prepare_position_grad,
     .run = run_position_grad},
    {0},
};
