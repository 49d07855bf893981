// experts - mixtures of experts: route, dispatch, combine and their gradients, around
// the vectorised functions. A row of an expert that is on another rank counts as
// absent: that rank adds its own.

#include "backend/cpu/wrap.h"
#include "ops/nn/moe.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

enum { EXPERT, SAMPLE, SLOT, COLUMN }; // dims of what lies with experts

// ---- rows ----------------------------------------------------------------

// What differs between dispatch, combine and gate_grad: which operand is ordered by
// experts, and which inputs have places and gates.
typedef struct shape {
    const tt_operand *z;
    int place, gate; // gate -1: never
} shape;

static int64_t pairs_of(const tt_site *site, const shape *s)
{
    return tt_operand_count(&site->in[s->place]);
}

static int64_t rows_of(const shape *s)
{
    return tt_operand_count(s->z) / tt_operand_dim(s->z, COLUMN);
}

static bool fits(const tt_site *site, const shape *s)
{
    return rows_of(s) <= INT32_MAX && pairs_of(site, s) <= INT32_MAX;
}

// Local rows of the pairs, -1 where there is none.
static tt_status find_rows(const tt_site *site, const tt_args *args,
                           const shape *s, int32_t *row)
{
    const int32_t *place = args->in[s->place];
    const int64_t n = pairs_of(site, s);
    const int64_t of_sample = n / tt_operand_dim(&site->in[s->place], 0);
    const int64_t samples = tt_operand_dim(s->z, SAMPLE);
    const int64_t slots = tt_operand_dim(s->z, SLOT);
    const int64_t most = tt_position_extent(&s->z->local, EXPERT) * slots;
    for (int64_t i = 0; i < n; i++) {
        row[i] = -1;
        if (place[i] < 0)
            continue;
        if (place[i] >= most)
            return tt_fail(TT_ERR_ARG, "%s: place %d is not in 0..%lld",
                           site->origin, place[i], (long long)most - 1);
        const int64_t e =
            tt_position_local(&s->z->local, EXPERT, place[i] / slots);
        if (e >= 0)
            row[i] = (int32_t)((e * samples + i / of_sample) * slots +
                               place[i] % slots);
    }
    return TT_OK;
}

static tt_status describe(const tt_site *site, const tt_args *args,
                          const shape *s, tt_simd_experts_args *out)
{
    const tt_operand *place = &site->in[s->place];
    int32_t *row = args->scratch;
    const bool has_gate = s->gate >= 0 && tt_site_has(site, s->gate);
    TT_TRY(find_rows(site, args, s, row));
    *out = (tt_simd_experts_args){
        .type = tt__simd_type_of(s->z->dtype),
        .tokens = pairs_of(site, s) / tt_operand_dim(place, 2),
        .choices = tt_operand_dim(place, 2),
        .cols = tt_operand_dim(s->z, COLUMN),
        .rows = rows_of(s),
        .row = row,
        .gate = has_gate ? args->in[s->gate] : NULL,
        .pair = row + tt__round64(pairs_of(site, s)),
    };
    return TT_OK;
}

static int64_t scratch_of(const tt_site *site, const shape *s)
{
    return (tt__round64(pairs_of(site, s)) + tt__round64(rows_of(s))) *
           (int64_t)sizeof(int32_t);
}

// ---- dispatch, combine ---------------------------------------------------

static shape dispatch_of(const tt_site *site)
{
    return (shape){&site->out[0], 1, 2};
}

static shape combine_of(const tt_site *site)
{
    return (shape){&site->in[0], 1, 2};
}

static shape gate_grad_of(const tt_site *site)
{
    return (shape){&site->in[1], 2, -1};
}

static shape shape_of(const tt_site *site)
{
    return site->op == &tt_op_dispatch  ? dispatch_of(site)
           : site->op == &tt_op_combine ? combine_of(site)
                                        : gate_grad_of(site);
}

static bool can_move(const tt_backend *backend, const tt_site *site)
{
    const shape s = shape_of(site);
    (void)backend;
    return tt__site_has_types(site, "tif", "t") && fits(site, &s);
}

static bool can_gate_grad(const tt_backend *backend, const tt_site *site)
{
    const shape s = shape_of(site);
    (void)backend;
    return tt__site_has_types(site, "tti", "f") && fits(site, &s);
}

static tt_status prepare_move(tt_backend *backend, tt_site *site,
                              tt_prepared *prepared_out)
{
    const shape s = shape_of(site);
    (void)backend;
    prepared_out->scratch_bytes = scratch_of(site, &s);
    return TT_OK;
}

static tt_status run_dispatch(void *state, const tt_site *site,
                              const tt_args *args)
{
    const shape s = dispatch_of(site);
    tt_simd_experts_args a;
    (void)state;
    TT_TRY(describe(site, args, &s, &a));
    a.x = args->in[0];
    a.y = args->out[0];
    tt_simd_get()->experts->dispatch(&a);
    return TT_OK;
}

static tt_status run_combine(void *state, const tt_site *site,
                             const tt_args *args)
{
    const shape s = combine_of(site);
    tt_simd_experts_args a;
    (void)state;
    TT_TRY(describe(site, args, &s, &a));
    a.z = args->in[0];
    a.y = args->out[0];
    tt_simd_get()->experts->combine(&a);
    return TT_OK;
}

static tt_status run_gate_grad(void *state, const tt_site *site,
                               const tt_args *args)
{
    const shape s = gate_grad_of(site);
    tt_simd_experts_args a;
    (void)state;
    TT_TRY(describe(site, args, &s, &a));
    a.x = args->in[0];
    a.z = args->in[1];
    a.dgate = args->out[0];
    tt_simd_get()->experts->gate_grad(&a);
    return TT_OK;
}

// ---- route ---------------------------------------------------------------

enum { LOGITS, PLACE, DGATE, DBALANCE }; // of route_grad

static tt_simd_route_args describe_route(const tt_site *site,
                                         const tt_args *args)
{
    const tt_route_params *p = site->params;
    const tt_operand *x = &site->in[LOGITS];
    const int n = x->local.shape.ndim;
    tt_simd_route_args a = {.type = tt__simd_type_of(x->dtype),
                            .tokens = tt_operand_dim(x, n - 2),
                            .experts = tt_operand_dim(x, n - 1),
                            .choices = p->choices,
                            .slots = p->slots};
    a.groups = tt_operand_count(x) / (a.tokens * a.experts);
    if (args != NULL) {
        a.logits = args->in[LOGITS];
        a.balance = args->scratch;
        a.scratch = (char *)args->scratch +
                    tt__round64(a.groups * (int64_t)sizeof(double));
    }
    return a;
}

static bool can_route(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__is_simd(site->in[LOGITS].dtype) &&
           site->out[0].dtype == TT_F32 && site->out[1].dtype == TT_I32 &&
           site->out[2].dtype == TT_F32 && tt__site_is_plain(site);
}

static bool can_route_grad(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_has_types(site, "tiff", "t");
}

static tt_status prepare_route(tt_backend *backend, tt_site *site,
                               tt_prepared *prepared_out)
{
    const tt_simd_route_args a = describe_route(site, NULL);
    (void)backend;
    prepared_out->scratch_bytes =
        tt__round64(a.groups * (int64_t)sizeof(double)) +
        a.groups * tt_simd_get()->experts->route_scratch_bytes(a.experts);
    return TT_OK;
}

static tt_status run_route(void *state, const tt_site *site,
                           const tt_args *args)
{
    tt_simd_route_args a = describe_route(site, args);
    double sum = 0;
    (void)state;
    a.gate = args->out[0];
    a.place = args->out[1];
    tt_simd_get()->experts->route(&a);
    for (int64_t g = 0; g < a.groups; g++)
        sum += a.balance[g];
    *(float *)args->out[2] = (float)sum;
    return TT_OK;
}

static tt_status run_route_grad(void *state, const tt_site *site,
                                const tt_args *args)
{
    tt_simd_route_args a = describe_route(site, args);
    (void)state;
    a.place = (int32_t *)(uintptr_t)args->in[PLACE];
    if (tt_site_has(site, DGATE))
        a.gate = (float *)(uintptr_t)args->in[DGATE];
    if (tt_site_has(site, DBALANCE))
        a.d_balance = (float)(tt__scalar_of(site, args, DBALANCE) *
                              (double)a.experts / (double)a.tokens);
    a.d_logits = args->out[0];
    tt_simd_get()->experts->route_grad(&a);
    return TT_OK;
}

const tt_kernel_def tt__cpu_experts_kernels[] = {
    {TT_KERNEL(cpu, route), .can = can_route, .prepare = prepare_route,
     .run = run_route},
    {TT_KERNEL(cpu, route_grad), .can = can_route_grad,
     .prepare = prepare_route, .run = run_route_grad},
    {TT_KERNEL(cpu, dispatch), .can = can_move, .prepare = prepare_move,
     .run = run_dispatch},
    {TT_KERNEL(cpu, combine), .can = can_move, .prepare = prepare_move,
     .run = run_combine},
    {TT_KERNEL(cpu, gate_grad), .can = can_gate_grad, .prepare = prepare_move,
     .run = run_gate_grad},
    {0},
};
