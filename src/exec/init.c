// init - initial values of states. Element i of a state depends on the seed, the
// state's name and i's global index, and on nothing else.

#include "base/alloc.h"
#include "base/rng.h"
#include "exec/state.h"

static void fill_const(const tt_operand *o, double a, void *to)
{
    const int64_t n = tt_operand_count(o);
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(o->dtype, to, i, a);
}

static void fill_random(const tt_operand *o, const tt_init *init, uint64_t key,
                        void *to)
{
    const int64_t n = tt_operand_count(o);
    const double a = init->a;
    const bool is_normal = init->kind == TT_INIT_NORMAL;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const uint64_t g = (uint64_t)tt_local_to_global(&o->local, i);
        const double x =
            is_normal ? tt_rng_normal(key, g) : 2 * tt_rng_uniform(key, g) - 1;
        tt_dtype_store(o->dtype, to, i, a * x);
    }
}

static tt_status fill_copy(tt_exec *exec, tt_val from, const tt_operand *o,
                           void *to)
{
    const tt_operand *source = &exec->plan->home[from.id].operand;
    const int64_t n = tt_operand_count(o);
    if (tt_operand_count(source) != n)
        return tt_fail(TT_ERR_ARG, "%s cannot start as a copy: sizes differ",
                       tt_graph_value(exec->plan->graph, from)->name);
    void *dense = tt_alloc(n * tt_dtype_bytes(source->dtype));
    if (dense == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to copy a state");
    const tt_status status = tt_exec_read(exec, from, dense);
    for (int64_t i = 0; i < n && status == TT_OK; i++)
        tt_dtype_store(o->dtype, to, i, tt_dtype_load(source->dtype, dense, i));
    tt_free(dense);
    return status;
}

static tt_status init_value(tt_exec *exec, tt_val v, uint64_t seed)
{
    const tt_value *value = tt_graph_value(exec->plan->graph, v);
    const tt_operand *o = &exec->plan->home[v.id].operand;
    void *dense = tt_alloc(tt_operand_count(o) * tt_dtype_bytes(o->dtype));
    if (dense == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to initialise %s", value->name);
    tt_status status = TT_OK;
    if (value->init.kind == TT_INIT_COPY)
        status = fill_copy(exec, value->init.of, o, dense);
    else if (value->init.kind == TT_INIT_CONST)
        fill_const(o, value->init.a, dense);
    else
        fill_random(o, &value->init, tt_rng_key(seed, value->name, 0), dense);
    if (status == TT_OK)
        status = tt_exec_write(exec, v, dense);
    tt_free(dense);
    return status;
}

tt_status tt_exec_init_state(tt_exec *exec, uint64_t seed)
{
    const tt_graph *g = exec->plan->graph;
    for (int copies = 0; copies < 2; copies++) // copies after what they copy
        for (int32_t v = 0; v < g->n_values; v++)
            if (tt_role_is_state(g->value[v].role) &&
                (g->value[v].init.kind == TT_INIT_COPY) == (copies == 1))
                TT_TRY(init_value(exec, (tt_val){v}, seed));
    return TT_OK;
}
