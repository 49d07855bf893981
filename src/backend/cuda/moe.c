// moe - route, dispatch, combine and their gradients. What bounds them: dev/moe/moe.cu
// and dev/moe/route.cu.

#include "ops/nn/moe.h"

#include "backend/cuda/cuda.h"
#include "ops/nn/position.h"
#include "ops/ops.h"

enum { EXPERT, SAMPLE, SLOT, COLUMN };   // dims of what lies with experts
enum { LOGITS, PLACE, DGATE, DBALANCE }; // of route_grad
enum { GATE, OUT_PLACE, BALANCE };       // outputs of route

static tt_cuda_any input(const tt_site *site, const tt_args *args, int i)
{
    const bool is_here = tt_site_has(site, i);
    return (tt_cuda_any){is_here ? site->in[i].dtype : TT_F32,
                         is_here ? (void *)(uintptr_t)args->in[i] : NULL};
}

// ---- route ----

static tt_cuda_route_args describe_route(const tt_site *site)
{
    const tt_route_params *p = site->params;
    const tt_operand *x = &site->in[LOGITS];
    const int n = x->local.shape.ndim;
    tt_cuda_route_args a = {.tokens = tt_operand_dim(x, n - 2),
                            .experts = tt_operand_dim(x, n - 1),
                            .choices = p->choices,
                            .slots = p->slots};
    a.groups = tt_operand_count(x) / (a.tokens * a.experts);
    return a;
}

static bool can_route(const tt_backend *backend, const tt_site *site)
{
    (void)backend;
    return tt__site_is_plain(site);
}

static tt_status prepare_route(tt_backend *backend, tt_site *site,
                               tt_prepared *prepared_out)
{
    const tt_cuda_route_args a = describe_route(site);
    prepared_out->scratch_bytes = tt__cuda_of(backend)->api->route_scratch(&a);
    return tt__cuda_prepare(backend, site, prepared_out);
}

static tt_status run_route(void *state, const tt_site *site,
                           const tt_args *args)
{
    tt_cuda_route_args a = describe_route(site);
    a.logits = input(site, args, LOGITS);
    a.gate = (tt_cuda_any){site->out[GATE].dtype, args->out[GATE]};
    a.place = args->out[OUT_PLACE];
    a.balance = (tt_cuda_any){site->out[BALANCE].dtype, args->out[BALANCE]};
    a.scratch = args->scratch;
    return TT__CUDA(state, route, &a);
}

static tt_status run_route_grad(void *state, const tt_site *site,
                                const tt_args *args)
{
    tt_cuda_route_args a = describe_route(site);
    a.logits = input(site, args, LOGITS);
    a.place = (int32_t *)(uintptr_t)args->in[PLACE];
    a.gate = input(site, args, DGATE);
    a.balance = input(site, args, DBALANCE);
    a.dlogits = (tt_cuda_any){site->out[0].dtype, args->out[0]};
    a.scratch = args->scratch;
    return TT__CUDA(state, route_grad, &a);
}

// ---- dispatch, combine, gate_grad ----

// What lies with experts, and the input that has the places.
static const tt_operand *experts_of(const tt_site *site, int *place_out)
{
    *place_out = site->op == &tt_op_gate_grad ? 2 : 1;
    if (site->op == &tt_op_dispatch)
        return &site->out[0];
    return &site->in[site->op == &tt_op_combine ? 0 : 1];
}

static bool describe(const tt_site *site, tt_cuda_moe_args *a)
{
    int place;
    const tt_operand *z = experts_of(site, &place);
    *a = (tt_cuda_moe_args){
        .batch = tt_operand_dim(z, SAMPLE),
        .tokens = tt_operand_dim(&site->in[place], 1),
        .choices = tt_operand_dim(&site->in[place], 2),
        .width = tt_operand_dim(z, COLUMN),
        .experts = tt_operand_dim(z, EXPERT),
        .slots = tt_operand_dim(z, SLOT),
        .whole = tt_position_extent(&z->local, EXPERT),
    };
    return tt__is_run(&z->local, EXPERT, &a->first);
}

static bool can(const tt_backend *backend, const tt_site *site)
{
    tt_cuda_moe_args a;
    (void)backend;
    return tt__site_is_plain(site) && describe(site, &a);
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    tt_cuda_moe_args a;
    int place;
    (void)describe(site, &a);
    (void)experts_of(site, &place);
    const tt_cuda_any out = {site->out[0].dtype, args->out[0]};
    a.place = args->in[place];
    if (site->op == &tt_op_dispatch) {
        a.x = input(site, args, 0);
        a.z = out;
        a.gate = input(site, args, 2);
        return TT__CUDA(state, dispatch, &a);
    }
    if (site->op == &tt_op_combine) {
        a.z = input(site, args, 0);
        a.x = out;
        a.gate = input(site, args, 2);
        return TT__CUDA(state, combine, &a);
    }
    a.x = input(site, args, 0);
    a.z = input(site, args, 1);
    a.gate = out;
    return TT__CUDA(state, gate_grad, &a);
}

const tt_kernel_def tt__cuda_moe_kernels[] = {
    {TT_KERNEL(cuda, route), .can = can_route, .prepare = prepare_route,
     .run = run_route},
    {TT_KERNEL(cuda, route_grad), .can = can_route, .prepare = prepare_route,
     .run = run_route_grad},
    {TT__CUDA_KERNEL(dispatch), .can = can, .run = run},
    {TT__CUDA_KERNEL(combine), .can = can, .run = run},
    {TT__CUDA_KERNEL(gate_grad), .can = can, .run = run},
    {0},
};
