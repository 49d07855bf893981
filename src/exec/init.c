// init - initial values of states. Element i of a state depends on the seed, the
// state's name and i's global index, and on nothing else. So every layout and every
// number of ranks starts from the same weights, and no rank has to send them.
//
// A state that is not stored dense is made in the part of the arena that steps share,
// which is free between steps. So initialising needs no more memory than training. A
// device's states are made on the host and copied, through one block for all; zeros are
// made on the device. Numbers that two states have in common (a weight and its master
// copy in 32 bits) are made once.

#include "base/alloc.h"
#include "base/poison.h"
#include "base/rng.h"
#include "exec/state.h"

#include <math.h>
#include <omp.h>
#include <string.h>

typedef struct stage {
    char *memory;
    int64_t bytes, used;
    void *extra; // when the arena has no room
} stage;

// Dense numbers on their way to a device: a state's, and the same in another type.
typedef struct crossing {
    void *numbers[2];
    int64_t bytes[2];
} crossing;

static bool is_host(const tt_exec *exec)
{
    return exec->backend->def->memory == NULL;
}

static void stage_init(const tt_exec *exec, stage *s)
{
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
    if (exec->options.poison && s->memory != NULL && used > 0)
        memset(s->memory, TT_POISON, (size_t)used);
}

// Memory for the dense form: the state's own where it is stored so.
static void *dense_place(const tt_exec *exec, tt_val v, stage *s)
{
    const tt_ref *home = &exec->plan->home[v.id];
    if (tt_operand_is_dense(&home->operand))
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

// The counter of the generator is the element's index in the whole value, not in this
// rank's part. The number is rounded to the type of the original first, so that a copy
// in another type has the same value.
static void fill_random(const tt_operand *o, const tt_value *of, uint64_t seed,
                        void *to)
{
    const int64_t n = tt_operand_count(o);
    const uint64_t key = tt_rng_key(seed, of->name, 0);
    const double a = of->init.a;
    const bool is_normal = of->init.kind == TT_INIT_NORMAL;
    const bool is_all = is_whole(&o->local);
    const bool is_plain = o->dtype == TT_F32 && of->type.dtype == TT_F32;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const uint64_t g =
            (uint64_t)(is_all ? i : tt_local_to_global(&o->local, i));
        const double x =
            is_normal ? tt_rng_normal(key, g) : 2 * tt_rng_uniform(key, g) - 1;
        if (is_plain) // most are, and conversions take as long as the numbers
            ((float *)to)[i] = (float)(a * x);
        else
            tt_dtype_store(o->dtype, to, i, rounded(of->type.dtype, a * x));
    }
}

// A copy is computed again, since it may be placed differently than its original: a
// whole weight whose master is in parts, say.
static const tt_value *source_of(const tt_graph *g, const tt_value *value)
{
    while (value->init.kind == TT_INIT_COPY)
        value = tt_graph_value(g, value->init.of);
    return value;
}

static void make(const tt_operand *o, const tt_value *of, uint64_t seed,
                 void *dense)
{
    if (of->init.kind == TT_INIT_CONST)
        fill_const(o, rounded(of->type.dtype, of->init.a), dense);
    else
        fill_random(o, of, seed, dense);
}

// ---- in the host's memory ------------------------------------------------

static tt_status fill_host(tt_exec *exec, tt_val v, uint64_t seed)
{
    stage s;
    const tt_graph *g = exec->plan->graph;
    const tt_operand *o = &exec->plan->home[v.id].operand;
    tt_status status = TT_ERR_NOMEM;
    stage_init(exec, &s);
    void *dense = dense_place(exec, v, &s);
    if (dense != NULL) {
        make(o, source_of(g, tt_graph_value(g, v)), seed, dense);
        status = tt_operand_is_dense(o) ? TT_OK : tt_exec_write(exec, v, dense);
    }
    stage_fini(exec, &s);
    return status;
}

// ---- in a device's memory ------------------------------------------------

static void *crossing_take(crossing *c, int which, int64_t bytes)
{
    if (bytes > c->bytes[which]) {
        tt_free(c->numbers[which]);
        c->numbers[which] = tt_alloc(bytes);
        c->bytes[which] = c->numbers[which] != NULL ? bytes : 0;
    }
    if (bytes > c->bytes[which])
        (void)tt_fail(TT_ERR_NOMEM, "no memory to initialise a state");
    return bytes > c->bytes[which] ? NULL : c->numbers[which];
}

static void crossing_fini(crossing *c)
{
    tt_free(c->numbers[0]);
    tt_free(c->numbers[1]);
}

static int64_t dense_bytes(const tt_operand *o)
{
    return tt_operand_count(o) * tt_dtype_bytes(o->dtype);
}

static bool is_zero(const tt_value *of)
{
    return of->init.kind == TT_INIT_CONST && of->init.a == 0 &&
           !signbit(of->init.a);
}

// Whether a state is the same numbers as another, which makes both.
static bool is_made_with(const tt_exec *exec, const tt_value *value,
                         const tt_value *of)
{
    const tt_ref *home = exec->plan->home;
    const tt_value *all = exec->plan->graph->value;
    const tt_local *a = &home[value - all].operand.local;
    const tt_local *b = &home[of - all].operand.local;
    return value != of && !is_zero(of) && is_whole(a) && is_whole(b);
}

static void convert(const tt_operand *from, const void *x, const tt_operand *to,
                    void *y)
{
    const int64_t n = tt_operand_count(to);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(to->dtype, y, i, tt_dtype_load(from->dtype, x, i));
}

static tt_status fill_copies(tt_exec *exec, const tt_value *of,
                             const void *dense, crossing *c)
{
    const tt_graph *g = exec->plan->graph;
    const tt_ref *home = exec->plan->home;
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_value *value = &g->value[v];
        if (!tt_role_is_state(value->role) || value->role == TT_ROLE_AGAIN ||
            source_of(g, value) != of || !is_made_with(exec, value, of))
            continue;
        void *copy = crossing_take(c, 1, dense_bytes(&home[v].operand));
        if (copy == NULL)
            return TT_ERR_NOMEM;
        convert(&home[of - g->value].operand, dense, &home[v].operand, copy);
        TT_TRY(tt_exec_write(exec, (tt_val){v}, copy));
    }
    return TT_OK;
}

static tt_status fill_device(tt_exec *exec, tt_val v, uint64_t seed,
                             crossing *c)
{
    const tt_graph *g = exec->plan->graph;
    const tt_value *value = tt_graph_value(g, v), *of = source_of(g, value);
    const tt_ref *home = &exec->plan->home[v.id];
    const tt_operand *o = &home->operand;
    if (is_made_with(exec, value, of))
        return TT_OK;
    if (is_zero(of) && tt_operand_is_dense(o) && home->buffer >= 0 &&
        !exec->plan->buffer[home->buffer].on_host)
        return tt_memory_fill(exec->backend, tt__address(exec, home), 0,
                              dense_bytes(o));
    void *dense = crossing_take(c, 0, dense_bytes(o));
    if (dense == NULL)
        return TT_ERR_NOMEM;
    make(o, of, seed, dense);
    TT_TRY(tt_exec_write(exec, v, dense));
    return value == of ? fill_copies(exec, of, dense, c) : TT_OK;
}

tt_status tt_exec_init_state(tt_exec *exec, uint64_t seed)
{
    const tt_graph *g = exec->plan->graph;
    crossing c = {0};
    tt_status status = TT_OK;
    omp_set_num_threads(exec->backend->options.n_threads);
    for (int32_t v = 0; v < g->n_values && status == TT_OK; v++)
        if (tt_role_is_state(g->value[v].role) &&
            g->value[v].role != TT_ROLE_AGAIN &&
            exec->plan->home[v].buffer >= 0)
            status = is_host(exec) ? fill_host(exec, (tt_val){v}, seed)
                                   : fill_device(exec, (tt_val){v}, seed, &c);
    crossing_fini(&c);
    return status;
}
