// law_flight - ranks that overlap communication with computation are like one rank.
//
// Here everything is real except the processes: plans, buckets, flights, the wire's
// thread, shared memory. Gradients travel while backward goes on, which is where races
// live: a bucket that is sent before its last gradient is written, a weight that is
// read before it arrived. Memory is poisoned with NaN, so a value that is read too
// early shows in the loss.
//
// Every model, small and in fp64, makes two steps. The loss and all weights must be
// those of one rank, to 1e-10. The table of configurations has buckets of several
// sizes down to one byte, every order of buckets, micro-batches, every level of ZeRO,
// and a second axis.

#include "base/alloc.h"
#include "check/law.h"
#include "check/rank_threads.h"
#include "check/small.h"
#include "exec/wire/wire.h"
#include "pass/chain.h"
#include "pass/copies.h"
#include "pipe/pipe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 2, SHARED = 4 << 20 };

// How the ranks of one run are set up.
typedef struct config {
    const char *zero;
    int64_t bucket_bytes;
    int32_t n_data, n_tensor; // ranks along both axes
    int32_t n_micro;
    int32_t n_pipe, n_chunks; // stages along a third axis; 0: not cut
    tt_flight_order order;
    const char *schedule; // of the stages; NULL: one micro-batch at a time
} config;

typedef struct subject {
    const tt_small *small;
    const config *config;
    const tt_backend_def *device;
    tt_graph *whole, *parts;
    // What one rank computed: all weights, one after another, and the loss.
    double *weights;
    double loss;

    double rank_error[TT_RANK_THREADS_MOST];
} subject;

// ---- leaves ------------------------------------------------------------------

// This rank's part of a leaf.
static tt_status write_leaf(tt_exec *exec, tt_val v, int64_t first)
{
    const tt_plan *plan = tt_exec_plan(exec);
    const tt_value *value = &plan->graph->value[v.id];
    const int64_t n = tt_shape_count(&value->type.shape);
    tt_local local;
    tt_local_of(&value->type, &plan->graph->mesh, plan->rank, &local);
    if (local.is_absent)
        return TT_OK;
    double *data = tt_alloc(16 * n);
    if (data == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    tt_small_fill(plan->graph, v, first, data);
    for (int64_t i = 0; i < tt_shape_count(&local.shape); i++)
        tt_dtype_store(value->type.dtype, data + n, i,
                       data[tt_local_to_global(&local, i)]);
    const tt_status status = tt_exec_write(exec, v, data + n);
    tt_free(data);
    return status;
}

static tt_status feed(void *user, tt_exec *exec, int32_t micro)
{
    const tt_plan *plan = tt_exec_plan(exec);
    const tt_graph *g = plan->graph;
    const int64_t batch = TT_SMALL_BATCH / plan->n_micro;
    (void)user;
    if (tt_is(tt_graph_find(g, "first_sample")))
        TT_TRY(
            tt_exec_set_scalar(exec, "first_sample", (double)(micro * batch)));
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->value[v].role == TT_ROLE_INPUT)
            TT_TRY(
                write_leaf(exec, (tt_val){v},
                           micro * tt_shape_dim(&g->value[v].type.shape, 0)));
    return TT_OK;
}

// ---- a run -------------------------------------------------------------------

typedef struct runner {
    const tt_backend_def *device;
    tt_backend *backend;
    tt_plan *plan;
    tt_exec *exec;
} runner;

static void runner_fini(runner *run)
{
    tt_exec_destroy(run->exec);
    tt_plan_destroy(run->plan);
    tt_backend_close(run->backend);
}

static tt_status run_steps(runner *run, const tt_graph *g,
                           const tt_lower_options *lower, const tt_wire *wire)
{
    const tt_backend_options options = {
        .n_threads = 1, .number = -1, .local = lower->rank};
    const tt_exec_options exec = {
        .poison = true, .check_finite = true, .wire = wire};
    TT_TRY(tt_backend_open(run->device, &options, &run->backend));
    TT_TRY(tt_plan_lower(g, &run->backend->target, lower, &run->plan));
    TT_TRY(tt_plan_verify(run->plan));
    TT_TRY(tt_exec_create(run->plan, run->backend, &exec, &run->exec));
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->value[v].node < 0 && g->value[v].role != TT_ROLE_INPUT)
            TT_TRY(write_leaf(run->exec, (tt_val){v}, 0));
    for (int i = 0; i < STEPS; i++)
        TT_TRY(tt_exec_run(run->exec, feed, NULL));
    return TT_OK;
}

static tt_status run_alone(subject *s, runner *run)
{
    const tt_graph *g = s->whole;
    int64_t n = 0;
    TT_TRY(run_steps(run, g, &(tt_lower_options){.n_micro = s->config->n_micro},
                     NULL));
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->value[v].role == TT_ROLE_PARAM)
            n += tt_small_elements(g, (tt_val){v});
    s->weights = tt_alloc(8 * n);
    if (s->weights == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    double *to = s->weights;
    for (int32_t v = 0; v < g->n_values; v++) {
        if (g->value[v].role != TT_ROLE_PARAM)
            continue;
        TT_TRY(tt_exec_read(run->exec, (tt_val){v}, to));
        to += tt_small_elements(g, (tt_val){v});
    }
    return tt_exec_get_scalar(run->exec, tt_graph_output_find(g, "loss"),
                              &s->loss);
}

// ---- many ranks --------------------------------------------------------------

// How far this rank's part of a weight is from the whole one.
static tt_status compare(const subject *s, const runner *run, tt_val v,
                         const double *want, double *error_io)
{
    const tt_plan *plan = run->plan;
    const tt_type *type = &plan->graph->value[v.id].type;
    tt_local local;
    tt_local_of(type, &plan->graph->mesh, plan->rank, &local);
    if (local.is_absent)
        return TT_OK;
    const int64_t n = tt_shape_count(&local.shape);
    double *got = tt_alloc(8 * n);
    (void)s;
    if (got == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    const tt_status status = tt_exec_read(run->exec, v, got);
    for (int64_t i = 0; i < n && status == TT_OK; i++) {
        const double error = fabs(got[i] - want[tt_local_to_global(&local, i)]);
        *error_io = tt_law_worse(*error_io, error);
    }
    tt_free(got);
    return status;
}

static tt_status compare_all(subject *s, const runner *run)
{
    double error = 0, loss = 0;
    const double *want = s->weights;
    for (int32_t v = 0; v < s->whole->n_values; v++) {
        if (s->whole->value[v].role != TT_ROLE_PARAM)
            continue;
        const tt_val other = tt_graph_find(s->parts, s->whole->value[v].name);
        TT_TRY(compare(s, run, other, want, &error));
        want += tt_small_elements(s->whole, (tt_val){v});
    }
    TT_TRY(tt_exec_get_scalar(run->exec, tt_graph_output_find(s->parts, "loss"),
                              &loss));
    s->rank_error[run->plan->rank] =
        tt_law_worse(error, fabs(loss - s->loss) / fabs(s->loss));
    return TT_OK;
}

// Whether the schedule has two copies of the model.
static bool is_twice(const config *c)
{
    return c->schedule != NULL && tt_pipe_find(c->schedule)->n_copies > 1;
}

// A stage's rows of a schedule.
static int32_t take_rows(const tt_pipe *pipe, int32_t stage, tt_lower_row *row)
{
    static const tt_phase phase[] = {[TT_PIPE_FORWARD] = TT_FORWARD,
                                     [TT_PIPE_BACKWARD] = TT_BACKWARD,
                                     [TT_PIPE_INPUT_GRAD] = TT_BACKWARD,
                                     [TT_PIPE_WEIGHT_GRAD] = TT_WEIGHT_GRAD};
    const tt_pipe_rank *rank = &pipe->rank[stage];
    int32_t n = 0;
    for (int32_t i = 0; i < rank->n; i++)
        if (rank->row[i].phase != TT_PIPE_UPDATE)
            row[n++] = (tt_lower_row){phase[rank->row[i].phase],
                                      tt_mesh_copy_stage(pipe->n_chunks,
                                                         rank->row[i].copy,
                                                         rank->row[i].chunk),
                                      rank->row[i].micro};
    return n;
}

static tt_status schedule(const subject *s, tt_lower_options *lower,
                          tt_lower_row *row)
{
    const config *c = s->config;
    const tt_mesh *mesh = &s->parts->mesh;
    tt_pipe *pipe = NULL;
    if (c->schedule == NULL)
        return TT_OK;
    const tt_pipe_shape shape = {.ranks = c->n_pipe,
                                 .chunks = c->n_chunks / c->n_pipe,
                                 .micro = c->n_micro};
    TT_TRY(tt_pipe_create(tt_pipe_find(c->schedule), &shape, NULL, &pipe));
    const int stage = tt_mesh_coord(mesh, lower->rank, tt_mesh_pipe(mesh));
    lower->row = row;
    lower->n_rows = take_rows(pipe, stage, row);
    lower->bound = pipe->bound;
    lower->split_weight_grad = strncmp(c->schedule, "zb", 2) == 0;
    tt_pipe_destroy(pipe);
    return TT_OK;
}

static tt_status run_rank(tt_comm *comm, void *user)
{
    enum { MOST_ROWS = 64 };
    subject *s = user;
    const config *c = s->config;
    tt_lower_row row[MOST_ROWS];
    tt_lower_options lower = {.rank = comm->rank,
                              .n_micro = c->n_micro,
                              .bucket_bytes = c->bucket_bytes,
                              .order = c->order};
    tt_comm_wire *wire = NULL;
    runner run = {.device = s->device};
    TT_TRY(schedule(s, &lower, row));
    TT_TRY(tt_comm_wire_open(comm, NULL, &wire));
    // Messages of two copies cross: by links each would wait for its peer's.
    tt_comm_wire_by_devices(wire, !is_twice(c) && tt_rank_threads_have_devices(
                                                      s->device, comm->size));
    tt_status status = run_steps(&run, s->parts, &lower, tt_comm_wire_of(wire));
    if (status == TT_OK)
        status = compare_all(s, &run);
    runner_fini(&run);
    tt_comm_wire_close(wire);
    return status;
}

// The model twice, where the schedule has two copies.
static tt_status double_up(const config *c, tt_graph **graph)
{
    tt_chain chain = {0};
    if (!is_twice(c))
        return TT_OK;
    tt_chain_add(&chain, &tt_pass_copies, &(tt_copies_params){c->n_chunks});
    const tt_status status = tt_chain_apply(&chain, graph);
    if (status != TT_OK)
        tt_graph_destroy(*graph);
    return status;
}

static tt_status split(subject *s)
{
    const tt_pass_def *def = tt_pass_find("partition");
    const config *c = s->config;
    char mesh[64], layout[128];
    int n = snprintf(mesh, sizeof mesh, "data:%d", c->n_data);
    if (c->n_pipe > 0)
        n += snprintf(mesh + n, sizeof mesh - (size_t)n, " pipe:%d", c->n_pipe);
    if (c->n_tensor > 1)
        (void)snprintf(mesh + n, sizeof mesh - (size_t)n, " tensor:%d",
                       c->n_tensor);
    snprintf(layout, sizeof layout, "batch:data %s",
             c->n_tensor > 1 ? s->small->tensor : "");
    tt_graph *staged = NULL;
    if (c->n_pipe > 0)
        TT_TRY(tt_small_build_as(
            s->small,
            &(tt_train_recipe){.optim = {.def = tt_optim_find("sgd")},
                               .dtype = TT_F64,
                               .master = TT_F64,
                               .cut = {.n_chunks = c->n_chunks}},
            TT_SMALL_BATCH / c->n_micro, &staged));
    TT_TRY(double_up(c, &staged));
    const tt_graph *whole = staged != NULL ? staged : s->whole;
    tt_arena *arena = tt_arena_create();
    void *params = arena ? tt_arena_alloc(arena, def->params_bytes) : NULL;
    const char *const set[][2] = {{"mesh", mesh},
                                  {"layout", layout},
                                  {"zero", c->zero},
                                  {"zero_small", "0"}};
    tt_status status = params == NULL
                           ? tt_fail(TT_ERR_NOMEM, "no memory for a law")
                           : tt_opt_defaults(def->options, params, arena);
    for (int i = 0; i < 4 && status == TT_OK; i++)
        status = tt_opt_set(def->options, params, set[i][0], set[i][1], arena);
    if (status == TT_OK)
        status = tt_pass_apply(def, params, whole, &s->parts);
    tt_arena_destroy(arena);
    tt_graph_destroy(staged);
    return status;
}

static tt_status check_alike(subject *s)
{
    runner alone = {.device = s->device};
    TT_TRY(tt_small_build(s->small, TT_SMALL_BATCH / s->config->n_micro,
                          &s->whole));
    tt_status status = run_alone(s, &alone);
    runner_fini(&alone);
    TT_TRY(status);
    TT_TRY(split(s));
    const int32_t n = s->config->n_data * s->config->n_tensor *
                      (s->config->n_pipe > 0 ? s->config->n_pipe : 1);
    TT_TRY(tt_rank_threads_run(n, SHARED, run_rank, s));
    for (int32_t r = 0; r < n; r++)
        if (!(s->rank_error[r] <= 1e-10))
            return tt_fail(TT_ERR_STATE, "rank %d is off by %.3g", r,
                           s->rank_error[r]);
    return TT_OK;
}

static void check_config(tt_law_report *r, const tt_small *small,
                         const char *name, const config *c)
{
    static const char *const order[] = {"fifo", "priority", "magnitude"};
    subject s = {.small = small,
                 .config = c,
                 .device = tt_rank_threads_device(r->device)};
    const tt_status status = check_alike(&s);
    tt_law_report_check(
        r, status == TT_OK,
        "%s: %d x %d x %d ranks, ZeRO %s, %d micro-batches, buckets of %lld "
        "bytes, %s, %s: %s",
        name, c->n_data, c->n_tensor, c->n_pipe, c->zero, c->n_micro,
        (long long)c->bucket_bytes, order[c->order],
        c->schedule != NULL ? c->schedule : "in order", tt_error_message());
    tt_free(s.weights);
    tt_graph_destroy(s.parts);
    tt_graph_destroy(s.whole);
}

// The first model of the table is run in every configuration, each other model in a
// third of them. Batch norm is not combined with micro-batches: the statistics of very
// small batches magnify rounding too much to compare.
static tt_status check(tt_law_report *r, const tt_small *small,
                       const char *name)
{
    static const config configs[] = {
        {"0", 0, 2, 1, 1, 0, 0, TT_ORDER_FIFO},
        {"0", 1, 3, 1, 1, 0, 0, TT_ORDER_MAGNITUDE},
        {"0", 700, 2, 1, 2, 0, 0, TT_ORDER_PRIORITY},
        {"1", 900, 2, 1, 1, 0, 0, TT_ORDER_FIFO},
        {"2", 0, 3, 1, 1, 0, 0, TT_ORDER_FIFO},
        {"2", 1, 2, 1, 2, 0, 0, TT_ORDER_FIFO},
        {"3", 500, 2, 1, 2, 0, 0, TT_ORDER_FIFO},
        {"3", 0, 3, 1, 1, 0, 0, TT_ORDER_PRIORITY},
        {"0", 1, 2, 1, 2, 0, 0, TT_ORDER_MAGNITUDE},
        {"0", 300, 2, 2, 1, 0, 0, TT_ORDER_FIFO},
        {"3", 0, 2, 2, 1, 0, 0, TT_ORDER_FIFO},
        {"0", 0, 1, 2, 2, 0, 0, TT_ORDER_FIFO},
        {"0", 0, 1, 1, 2, 2, 2, TT_ORDER_FIFO},
        {"1", 0, 2, 1, 2, 2, 4, TT_ORDER_FIFO},
        {"0", 300, 1, 2, 1, 2, 2, TT_ORDER_FIFO},
        {"3", 0, 2, 1, 1, 3, 3, TT_ORDER_FIFO},
        {"0", 0, 1, 1, 4, 2, 2, TT_ORDER_FIFO, "gpipe"},
        {"1", 0, 2, 1, 2, 2, 2, TT_ORDER_FIFO, "1f1b"},
        {"0", 0, 1, 2, 4, 2, 4, TT_ORDER_FIFO, "interleaved"},
        {"3", 0, 2, 1, 2, 3, 3, TT_ORDER_FIFO, "1f1b"},
        {"0", 0, 1, 1, 4, 3, 3, TT_ORDER_FIFO, "zb-h1"},
        {"0", 0, 1, 1, 4, 3, 3, TT_ORDER_FIFO, "1f1b"},
        {"0", 0, 1, 1, 4, 2, 2, TT_ORDER_FIFO, "message-driven"},
        {"1", 0, 2, 1, 2, 2, 2, TT_ORDER_FIFO, "message-driven"},
        {"0", 0, 1, 1, 4, 3, 3, TT_ORDER_FIFO, "message-driven"},
        {"0", 0, 1, 1, 4, 2, 2, TT_ORDER_FIFO, "gems"},
        {"0", 0, 1, 1, 4, 2, 2, TT_ORDER_FIFO, "chimera"},
        {"1", 0, 2, 1, 2, 2, 2, TT_ORDER_FIFO, "chimera"},
        {"3", 0, 2, 1, 2, 2, 2, TT_ORDER_FIFO, "gems"},
        {"0", 0, 1, 1, 4, 4, 4, TT_ORDER_FIFO, "chimera"},
    };
    enum { N = sizeof(configs) / sizeof(configs[0]) };
    const int k = small->index;
    for (int i = 0; i < N; i++)
        if ((k == 0 || i % 3 == k % 3) &&
            !(small->needs_batch && configs[i].n_micro > 1) &&
            (small->tensor != NULL || configs[i].n_tensor == 1))
            check_config(r, small, name, &configs[i]);
    return TT_OK;
}

static tt_status run(tt_law_report *r)
{
    if (tt_law_report_has_device(r))
        tt_small_each(r, check);
    return TT_OK;
}

const tt_law_def tt_law_flight = {
    .name = "flight",
    .doc =
        "Ranks that exchange gradients while they compute are like one rank.",
    .run = run,
};
