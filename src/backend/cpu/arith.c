// arith - add, mul, scale, cast, fill, offer, tally.

#include "ops/arith.h"

#include "backend/cpu/groups.h"
#include "backend/cpu/wrap.h"
#include "ops/ops.h"
#include "ops/shape/move.h"

// ---- add, mul: b broadcasts to a -----------------------------------------

static bool can_binary(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "tx", "t");
}

static tt__groups groups_of(const tt_site *site)
{
    const tt_shape *a = &site->in[0].local.shape;
    const tt_shape *b = &site->in[1].local.shape;
    int map[TT_MAX_DIMS];
    (void)tt_broadcast_map(&(tt_i64s){0}, b, a, map);
    return tt__groups_of(a, b, map);
}

// One call for the last two groups, for every index of those before them.
static void run_binary(const tt_site *site, const tt_args *args,
                       tt_simd_binary_op op)
{
    const tt_operand *a = &site->in[0], *b = &site->in[1];
    const tt__groups g = groups_of(site);
    const tt__dim_group *row = &g.group[g.n - 2], *col = &g.group[g.n - 1];
    const int64_t size = row->n * col->n;
    tt_simd_binary_args x = {
        .op = op,
        .type = tt__simd_type_of(a->dtype),
        .rows = row->n,
        .cols = col->n,
        .a = {NULL, tt__simd_type_of(a->dtype), col->n, 1},
        .b = {NULL, tt__simd_type_of(b->dtype), row->stride, col->stride},
    };
    for (int64_t i = 0; i < tt_operand_count(a); i += size) {
        const int64_t k = tt__groups_offset(&g, i / size);
        x.a.data = (const char *)args->in[0] + i * tt_dtype_bytes(a->dtype);
        x.b.data = (const char *)args->in[1] + k * tt_dtype_bytes(b->dtype);
        x.y = (char *)args->out[0] + i * tt_dtype_bytes(a->dtype);
        tt_simd_get()->elementwise->binary(&x);
    }
}

static tt_status run_add(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    run_binary(site, args, TT_SIMD_ADD);
    return TT_OK;
}

static tt_status run_mul(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    run_binary(site, args, TT_SIMD_MUL);
    return TT_OK;
}

// ---- scale, cast, fill ---------------------------------------------------

static bool can_unary(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "t", "t");
}

static bool can_cast(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "x", "x");
}

static tt_status run_scale(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    const tt_scale_params *p = site->params;
    const tt_simd_axpby_args a = {
        .type = tt__simd_type_of(site->in[0].dtype),
        .n = tt_operand_count(&site->in[0]),
        .alpha = (float)p->by,
        .x = args->in[0],
        .y = args->out[0],
    };
    tt_simd_get()->elementwise->axpby(&a);
    return TT_OK;
}

static tt_status run_cast(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    tt_simd_get()->elementwise->cast(
        tt__simd_type_of(site->in[0].dtype), args->in[0],
        tt__simd_type_of(site->out[0].dtype), args->out[0],
        tt_operand_count(&site->out[0]));
    return TT_OK;
}

static tt_status run_fill(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_fill_params *p = site->params;
    tt_simd_get()->elementwise->fill(
        tt__simd_type_of(site->out[0].dtype), args->out[0],
        tt_operand_count(&site->out[0]), (float)p->value);
    return TT_OK;
}

// ---- offer, tally: sums --------------------------------------------------

// out = or += the inputs from `first` on.
static void sum(const tt_site *site, const tt_args *args, int first)
{
    const tt_operand *y = &site->out[0];
    const tt_simd_type type = tt__simd_type_of(y->dtype);
    const int64_t n = tt_operand_count(y);
    int i = first;
    if (!args->accumulate)
        tt_simd_get()->elementwise->cast(tt__simd_type_of(site->in[i].dtype),
                                         args->in[i], type, args->out[0], n);
    i += !args->accumulate;
    for (; i < site->n_in; i++) {
        const tt_simd_binary_args a = {
            .op = TT_SIMD_ADD,
            .type = type,
            .rows = 1,
            .cols = n,
            .a = {args->out[0], type, n, 1},
            .b = {args->in[i], tt__simd_type_of(site->in[i].dtype), n, 1},
            .y = args->out[0],
        };
        tt_simd_get()->elementwise->binary(&a);
    }
}

static tt_status run_offer(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    sum(site, args, 1);
    return TT_OK;
}

static tt_status run_tally(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    sum(site, args, 0);
    return TT_OK;
}

const tt_kernel_def tt__cpu_arith_kernels[] = {
    {TT_KERNEL(cpu, add), .in_place = true, .can = can_binary, .run = run_add},
    {TT_KERNEL(cpu, mul), .in_place = true, .can = can_binary, .run = run_mul},
    {TT_KERNEL(cpu, scale), .in_place = true, .can = can_unary,
     .run = run_scale},
    {TT_KERNEL(cpu, cast), .can = can_cast, .run = run_cast},
    {TT_KERNEL(cpu, fill), .can = can_cast, .run = run_fill},
    {TT_KERNEL(cpu, offer), .accumulates = true, .can = can_cast,
     .run = run_offer},
    {TT_KERNEL(cpu, tally), .accumulates = true, .can = can_cast,
     .run = run_tally},
    {0},
};
