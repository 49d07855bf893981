// init - initial values of states. Element i of a state depends on the seed, the
// state's name and i's global index, and on nothing else.
//
// What is not stored dense is made in the part of the arena that steps share,
// which is free between steps, so that initialising needs no more memory than
// training does. What is not in the host's memory is made there and copied.

#include "base/alloc.h"
#include "base/poison.h"
#include "base/rng.h"
#include "exec/state.h"

#include <omp.h>
#include <string.h>

typedef struct stage {
    char *memory;
    int64_t bytes, used;
    void *extra; // when the arena has no room
} stage;

static bool is_host(const tt_exec *exec)
{
    return exec->backend->def->memory == NULL;
}

static void stage_init(const tt_exec *exec, stage *s)
{
    *s = (stage){0};
    if (!is_host(exec))
        return;
    const int64_t first = (exec->plan->persistent_bytes + 63) / 64 * 64;
    *s = (stage){.memory = tt__at(exec, first),
                 .bytes = exec->plan->peak_bytes - first};
}

static void *stage_take(stage *s, int64_t bytes)
{
    if (s->bytes - s->used >= bytes) {
        void *p = s->memory + s->used;
        s->used += (bytes + 63) / 64 * 64;
        return p;
    }
    s->extra = tt_alloc(bytes); // a stage is taken from once
    if (s->extra == NULL)
        (void)tt_fail(TT_ERR_NOMEM, "no memory to initialise a state");
    return s->extra;
}

static void stage_fini(const tt_exec *exec, stage *s)
{
    tt_free(s->extra);
    const int64_t used = s->used < s->bytes ? s->used : s->bytes;
    if (exec->options.poison && used > 0)
        memset(s->memory, TT_POISON, (size_t)used);
}

// Memory for the dense form: the state's own where it is stored so.
static void *dense_place(const tt_exec *exec, tt_val v, stage *s)
{
    const tt_ref *home = &exec->plan->home[v.id];
    if (is_host(exec) && tt_operand_is_dense(&home->operand))
        return tt__address(exec, home);
    return stage_take(s, tt_operand_count(&home->operand) *
                             tt_dtype_bytes(home->operand.dtype));
}

static void fill_const(const tt_operand *o, double a, void *to)
{
    const int64_t n = tt_operand_count(o);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(o->dtype, to, i, a);
}

static bool is_whole(const tt_local *local)
{
    for (int f = 0; f < local->shape.n_factors; f++)
        if (local->shape.factor[f].size != local->global[f])
            return false;
    return true;
}

// As a state of type `dtype` has it.
static double rounded(tt_dtype dtype, double x)
{
    double memory; // no type is wider
    tt_dtype_store(dtype, &memory, 0, x);
    return tt_dtype_load(dtype, &memory, 0);
}

static void fill_random(const tt_operand *o, const tt_value *of, uint64_t seed,
                        void *to)
{
    const int64_t n = tt_operand_count(o);
    const uint64_t key = tt_rng_key(seed, of->name, 0);
    const double a = of->init.a;
    const bool is_normal = of->init.kind == TT_INIT_NORMAL;
    const bool is_all = is_whole(&o->local);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const uint64_t g =
            (uint64_t)(is_all ? i : tt_local_to_global(&o->local, i));
        const double x =
            is_normal ? tt_rng_normal(key, g) : 2 * tt_rng_uniform(key, g) - 1;
        tt_dtype_store(o->dtype, to, i, rounded(of->type.dtype, a * x));
    }
}

// A copy is made anew, for it may lie elsewhere than what it is a copy of: a whole
// weight beside a master in parts, say.
static const tt_value *source_of(const tt_graph *g, const tt_value *value)
{
    while (value->init.kind == TT_INIT_COPY)
        value = tt_graph_value(g, value->init.of);
    return value;
}

static tt_status fill(tt_exec *exec, tt_val v, uint64_t seed, stage *s)
{
    const tt_graph *g = exec->plan->graph;
    const tt_value *of = source_of(g, tt_graph_value(g, v));
    const tt_operand *o = &exec->plan->home[v.id].operand;
    void *dense = dense_place(exec, v, s);
    if (dense == NULL)
        return TT_ERR_NOMEM;
    if (of->init.kind == TT_INIT_CONST)
        fill_const(o, rounded(of->type.dtype, of->init.a), dense);
    else
        fill_random(o, of, seed, dense);
    return is_host(exec) && tt_operand_is_dense(o)
               ? TT_OK
               : tt_exec_write(exec, v, dense);
}

static tt_status init_value(tt_exec *exec, tt_val v, uint64_t seed)
{
    stage s;
    stage_init(exec, &s);
    const tt_status status = fill(exec, v, seed, &s);
    stage_fini(exec, &s);
    return status;
}

tt_status tt_exec_init_state(tt_exec *exec, uint64_t seed)
{
    const tt_graph *g = exec->plan->graph;
    omp_set_num_threads(exec->backend->options.n_threads);
    for (int32_t v = 0; v < g->n_values; v++)
        if (tt_role_is_state(g->value[v].role))
            TT_TRY(init_value(exec, (tt_val){v}, seed));
    return TT_OK;
}
