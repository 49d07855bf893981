// reduce - sums and maxima over any dims: sum_to, reduce, bias_grad; broadcast, their
// reverse.
//
// Neighbouring dims that are reduced together are merged into groups (groups.h). Each
// group is one stage, a sum over the middle of [outer, count, inner]:
//
//   [4, 5, 6, 7] over dims 0 and 2    stage 1   [20, 6, 7] -> [20, 7]
//                                     stage 2   [1, 4, 35] -> [35]
//
// The last group goes first. Stages write fp32 to two buffers in turn; results are
// rounded once, at the end.

#include "backend/cpu/copy.h"
#include "backend/cpu/groups.h"
#include "backend/cpu/wrap.h"
#include "base/alloc.h"
#include "ops/arith.h"
#include "ops/ops.h"

enum { MAX_STAGES = TT_MAX_DIMS / 2 + 1 };

typedef struct stage { // [outer, count, inner] -> [outer, inner]
    int64_t outer, count, inner;
} stage;

typedef struct state {
    int n_stages;
    stage stage[MAX_STAGES];
    bool is_max;
    float factor;      // on the result
    int64_t room[2];   // bytes of the buffers that stages write in turn
    int64_t sum_bytes; // and of what a stage itself needs
} state;

// ---- which dims ----------------------------------------------------------

static void map_reduce(const tt_site *site, int *map)
{
    const tt_reduce_params *p = site->params;
    int next = 0;
    for (int d = 0; d < site->in[0].local.shape.ndim; d++) {
        const bool is_reduced = tt_reduce_has(p, d);
        map[d] = is_reduced ? -1 : next;
        next += !is_reduced || p->keep;
    }
}

// map[d]: the dim of the result that dim d of input 0 is; -1: none.
static void map_dims(const tt_site *site, int *map)
{
    const tt_shape *x = &site->in[0].local.shape;
    if (site->op == &tt_op_reduce) {
        map_reduce(site, map);
    } else if (site->op == &tt_op_sum_to) {
        const tt_broadcast_params *p = site->params;
        (void)tt_broadcast_map(&p->dims, &site->out[0].local.shape, x, map);
    } else {
        for (int d = 0; d < x->ndim; d++)
            map[d] = d == x->ndim - 1 ? 0 : -1; // bias_grad
    }
}

// How many entries of the whole value, over all ranks, make one result: a mean of a
// part divides by this, so that the parts' results are terms of the mean.
static double whole_length(const tt_site *site)
{
    const tt_reduce_params *p = site->params;
    const tt_local *x = &site->in[0].local;
    double n = 1;
    for (int f = 0; f < x->shape.n_factors; f++)
        if (tt_reduce_has(p, tt_shape_dim_of(&x->shape, f)))
            n *= (double)x->global[f];
    return n;
}

// ---- preparing -----------------------------------------------------------

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void add_stages(state *s, const tt__groups *groups)
{
    tt__groups g = *groups;
    for (int k = g.n - 1; k >= 0; k--) {
        if (g.group[k].stride != 0 || g.group[k].n == 1)
            continue;
        stage st = {1, g.group[k].n, 1};
        for (int i = 0; i < g.n; i++)
            *(i < k ? &st.outer : &st.inner) *= i == k ? 1 : g.group[i].n;
        g.group[k].n = 1;
        int64_t *room = &s->room[s->n_stages % 2];
        *room = larger(*room, tt__round64(st.outer * st.inner * 4));
        s->sum_bytes = larger(s->sum_bytes,
                              tt_simd_get()->reduce->column_sum_scratch_bytes(
                                  st.count, st.inner));
        s->stage[s->n_stages++] = st;
    }
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "x", "x");
}

static tt_status prepare(tt_backend *backend, tt_site *site,
                         tt_prepared *prepared_out)
{
    (void)backend;
    int map[TT_MAX_DIMS];
    map_dims(site, map);
    const tt__groups g =
        tt__groups_of(&site->in[0].local.shape, &site->out[0].local.shape, map);
    state *s = tt_alloc(sizeof(*s));
    if (s == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: no memory for a kernel",
                       site->op->name);
    s->factor = 1;
    if (site->op == &tt_op_reduce) {
        const tt_reduce_params *p = site->params;
        s->is_max = p->op == TT_REDUCE_MAX;
        if (p->op == TT_REDUCE_MEAN)
            s->factor = (float)(1 / whole_length(site));
    }
    add_stages(s, &g);
    prepared_out->state = s;
    prepared_out->scratch_bytes = s->room[0] + s->room[1] + s->sum_bytes;
    return TT_OK;
}

// ---- running -------------------------------------------------------------

static void run_stage(const state *s, const stage *st, tt_simd_type type,
                      const void *x, float *y, void *scratch)
{
    const tt_simd_reduce *reduce = tt_simd_get()->reduce;
    if (s->is_max || st->outer > 1) {
        const tt_simd_fold_args a = {type,      s->is_max, st->outer, st->count,
                                     st->inner, x,         y};
        tt_simd_get()->fold->run(&a);
    } else if (st->inner == 1) {
        *y = (float)reduce->sum(type, x, st->count);
    } else {
        const tt_simd_column_args a = {type, st->count, st->inner, x,
                                       y,    false,     scratch};
        reduce->column_sum(&a);
    }
}

// y = or += factor * x
static void finish(const state *s, const tt_site *site, const tt_args *args,
                   tt_simd_type type, void *x)
{
    const tt_operand *y = &site->out[0];
    const tt_simd_type to = tt__simd_type_of(y->dtype);
    const int64_t n = tt_operand_count(y);
    const tt_simd_elementwise *simd = tt_simd_get()->elementwise;
    if (s->factor != 1)
        simd->axpby(&(tt_simd_axpby_args){type, n, s->factor, 0, x, x});
    if (args->accumulate)
        simd->binary(&(tt_simd_binary_args){.op = TT_SIMD_ADD,
                                            .type = to,
                                            .rows = 1,
                                            .cols = n,
                                            .a = {args->out[0], to, n, 1},
                                            .b = {x, type, n, 1},
                                            .y = args->out[0]});
    else if (x != args->out[0])
        simd->cast(type, x, to, args->out[0], n);
}

static tt_status run(void *kernel_state, const tt_site *site,
                     const tt_args *args)
{
    const state *s = kernel_state;
    char *room[2] = {args->scratch, (char *)args->scratch + s->room[0]};
    void *sums = (char *)args->scratch + s->room[0] + s->room[1];
    const bool is_direct = site->out[0].dtype == TT_F32 && !args->accumulate;
    tt_simd_type type = tt__simd_type_of(site->in[0].dtype);
    void *x = (void *)(uintptr_t)args->in[0];
    for (int k = 0; k < s->n_stages; k++) {
        const bool is_last = k == s->n_stages - 1;
        void *y = is_last && is_direct ? args->out[0] : room[k % 2];
        run_stage(s, &s->stage[k], type, x, y, sums);
        type = TT_SIMD_F32;
        x = y;
    }
    finish(s, site, args, type, x);
    return TT_OK;
}

// ---- broadcast -----------------------------------------------------------

static bool can_broadcast(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_is_plain(site) && site->in[0].dtype == site->out[0].dtype &&
           tt__can_copy(site->out[0].dtype);
}

static tt_status run_broadcast(void *kernel_state, const tt_site *site,
                               const tt_args *args)
{
    (void)kernel_state;
    const tt_broadcast_params *p = site->params;
    const tt_shape *x = &site->in[0].local.shape,
                   *y = &site->out[0].local.shape;
    int map[TT_MAX_DIMS];
    (void)tt_broadcast_map(&p->dims, x, y, map);
    const tt__groups g = tt__groups_of(y, x, map);
    tt__strided_block b = {.n = g.n};
    int64_t stride = 1;
    for (int k = g.n - 1; k >= 0; k--) {
        b.dims[k] = g.group[k].n;
        b.from[k] = g.group[k].stride;
        b.to[k] = stride;
        stride *= g.group[k].n;
    }
    tt__copy_block(&b, tt_dtype_bytes(site->out[0].dtype), args->in[0],
                   args->out[0]);
    return TT_OK;
}

const tt_kernel_def tt__cpu_reduce_kernels[] = {
    {TT_KERNEL(cpu, broadcast), .can = can_broadcast, .run = run_broadcast},
    {TT_KERNEL(cpu, sum_to), .accumulates = true, .can = can,
     .prepare = prepare, .run = run},
    {TT_KERNEL(cpu, reduce), .can = can, .prepare = prepare, .run = run},
    {TT_KERNEL(cpu, bias_grad), .accumulates = true, .can = can,
     .prepare = prepare, .run = run},
    {0},
};
