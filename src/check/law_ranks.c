// law_ranks - the number of ranks does not change what is computed.
//
// Every model, small and in fp64, is trained for two steps on simulated ranks, at
// every level of ZeRO. Loss, gradients, norm and new states must be those of one rank,
// to 1e-9. This is the law of the partition pass: placements, collectives, ZeRO,
// recomputation.
//
// There are too many combinations to try all, so each run differs from its neighbours
// in several things at once. Models differ in optimiser and micro-batches, levels in
// ranks and recomputation, so that every member of each registry meets every level.
// Batches do not divide by the number of ranks. Batch norm takes the whole batch, or
// groups of four samples that lie on one rank or on several. Models with a layout over
// an axis `tensor` are split over that too, on odd levels together with their
// sequences. Sequences are also split over an axis `context`, in zigzag order, by ring
// attention or by all-to-all.
//
// Each model is also cut into the stages of a pipeline, alone and together with data,
// tensor and context parallelism, with one or two chunks per rank.

#include "base/alloc.h"
#include "check/law.h"
#include "check/small.h"
#include "ops/optim/optim.h"
#include "pass/partition/partition.h"
#include "pass/pass.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_STEPS = 2, N_LEVELS = 4, N_RUNS = 2 };

typedef struct subject {
    tt_law_report *r;
    const tt_small *small;
    const char *name;
    int index; // counts models and runs; chooses the combination
    bool is_tensor;
    int64_t batch, n_micro, bn_group;
    tt_graph *graph;
    tt_interp *interp; // has run
} subject;

static tt_status train(const subject *s, const tt_graph *g,
                       tt_interp **interp_out)
{
    const tt_small_steps steps = {
        .batch = s->batch, .n_micro = (int)s->n_micro, .n_steps = N_STEPS};
    return tt_small_train(g, &steps, interp_out);
}

// ---- comparison ----------------------------------------------------------

// For the scale of the measure: sum of squares, and number of elements.
typedef struct sums {
    double all, n;
} sums;

// What is compared of a value: a parameter's gradient, or a state itself.
static tt_val compared(const tt_graph *g, int32_t v, bool wants_grad)
{
    const tt_value *value = &g->value[v];
    const tt_val own = {v};
    if (wants_grad)
        return value->role == TT_ROLE_PARAM ? value->grad : TT_NONE;
    return tt_role_is_state(value->role) ? own : TT_NONE;
}

static tt_status add_up(const subject *s, bool wants_grad, sums *sums_out)
{
    *sums_out = (sums){0};
    for (int32_t v = 0; v < s->graph->n_values; v++) {
        const tt_val of = compared(s->graph, v, wants_grad);
        if (!tt_is(of))
            continue;
        double *x = tt_small_read(s->interp, s->graph, of);
        if (x == NULL)
            return TT_ERR_NOMEM;
        const int64_t n = tt_small_elements(s->graph, of);
        for (int64_t i = 0; i < n; i++)
            sums_out->all += x[i] * x[i];
        sums_out->n += (double)n;
        tt_free(x);
    }
    return TT_OK;
}

// |a - b| / max(|b|, 0.01 |all| sqrt(n / N)), the measure of verify/verify.h. NaN is a
// difference.
static double difference(const double *a, const double *b, int64_t n,
                         const sums *s)
{
    double error = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        error += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    size = fmax(sqrt(size), 0.01 * sqrt(s->all * (double)n / s->n));
    return isnan(error) ? (double)INFINITY : sqrt(error) / size;
}

typedef struct other {
    const tt_graph *graph;
    tt_interp *interp;
    const char *what;
} other;

static tt_status compare_value(const subject *s, const other *o, int32_t v,
                               bool wants_grad, const sums *total)
{
    const tt_val of = compared(s->graph, v, wants_grad);
    const char *name = s->graph->value[v].name;
    const tt_val there = tt_graph_find(o->graph, name);
    const tt_val as = compared(o->graph, there.id, wants_grad);
    const int64_t n = tt_small_elements(s->graph, of);
    double *b = tt_small_read(s->interp, s->graph, of);
    double *a = tt_alloc(8 * n);
    if (a == NULL || b == NULL) {
        tt_free(a);
        tt_free(b);
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    }
    const bool agree = tt_interp_read(o->interp, as, a);
    const double rel = difference(a, b, n, total);
    tt_law_report_check(s->r, agree, "%s: %s: replicas of %s%s differ", s->name,
                        o->what, wants_grad ? "the gradient of " : "", name);
    tt_law_report_check(s->r, rel <= 1e-9, "%s: %s: %s%s is off by %.3g",
                        s->name, o->what, wants_grad ? "the gradient of " : "",
                        name, rel);
    tt_free(a);
    tt_free(b);
    return TT_OK;
}

static tt_status compare_values(const subject *s, const other *o,
                                bool wants_grad)
{
    sums total;
    TT_TRY(add_up(s, wants_grad, &total));
    for (int32_t v = 0; v < s->graph->n_values; v++)
        if (tt_is(compared(s->graph, v, wants_grad)))
            TT_TRY(compare_value(s, o, v, wants_grad, &total));
    return TT_OK;
}

// What the host reads (loss, norm, counts) must be whole on every rank.
static void compare_outputs(const subject *s, const other *o)
{
    for (int32_t i = 0; i < s->graph->n_outputs; i++) {
        const char *name = s->graph->output[i].name;
        const tt_val v = tt_graph_output_find(o->graph, name);
        double a = (double)NAN, b = 0;
        (void)tt_interp_read(s->interp, s->graph->output[i].val, &b);
        const bool agree = tt_interp_read(o->interp, v, &a);
        bool is_whole = true;
        for (int x = 0; x < TT_MAX_AXES; x++)
            is_whole &=
                o->graph->value[v.id].type.place[x].kind == TT_REPLICATE;
        tt_law_report_check(
            s->r, agree && is_whole && fabs(a - b) <= 1e-9 * fabs(b),
            "%s: %s: %s is %.17g, not %.17g%s", s->name, o->what, name, a, b,
            is_whole ? "" : ", and not whole");
    }
}

// ---- levels --------------------------------------------------------------

// The mesh for one level of ZeRO.
static void describe(const subject *s, int level, tt_str *mesh)
{
    static const char *const matrices[N_LEVELS] = {
        "tensor:2 data:2", "data:2 tensor:2", "tensor:2 data:2",
        "data:2 tensor:2"};
    static const char *const sequences[N_LEVELS] = {
        "context:2 tensor:2", "data:2 tensor:2", "data:2 context:2",
        "tensor:2 data:2 context:2"};
    if (s->is_tensor)
        tt_str_add(mesh, (s->small->seq > 0 ? sequences : matrices)[level]);
    else
        tt_str_addf(mesh, "data:%d", 2 + (s->index / 3 + level) % 3);
}

static tt_status rewrite(const subject *s, const tt_graph *whole,
                         const char *mesh, int level, tt_graph **graph_out)
{
    char layout[128];
    const tt_partition_params params = {.mesh = mesh,
                                        .layout = layout,
                                        .zigzag = "context",
                                        .way = level == 2 ? TT_WAY_EXCHANGE
                                                          : TT_WAY_RING,
                                        .zero = level,
                                        .zero_small = 0.02};
    const int mode = (s->index + level) % 3; // none, selective, full
    snprintf(layout, sizeof layout, "batch:data %s seq:context %s",
             s->is_tensor ? s->small->tensor : "",
             s->is_tensor && level % 2 == 1 ? "seq:tensor" : "");
    tt_graph *parts = NULL;
    TT_TRY(tt_pass_apply(tt_pass_find("partition"), &params, whole, &parts));
    if (mode == 0) {
        *graph_out = parts;
        return TT_OK;
    }
    const tt_status status =
        tt_pass_apply(tt_pass_find("recompute"), &mode, parts, graph_out);
    tt_graph_destroy(parts);
    return status;
}

static tt_status check_graph(const subject *s, const other *o)
{
    compare_outputs(s, o);
    TT_TRY(compare_values(s, o, true));
    return compare_values(s, o, false);
}

static tt_status check_level(const subject *s, int level)
{
    tt_str mesh = {0}, what = {0};
    tt_graph *g = NULL;
    tt_interp *it = NULL;
    describe(s, level, &mesh);
    tt_str_addf(&what, "zero %d on %s", level, tt_str_text(&mesh));
    tt_status status = rewrite(s, s->graph, tt_str_text(&mesh), level, &g);
    if (status == TT_OK)
        status = train(s, g, &it);
    if (status == TT_OK)
        status = check_graph(s, &(other){g, it, tt_str_text(&what)});
    if (status != TT_OK)
        status = tt_fail_context(status, "%s", tt_str_text(&what));
    tt_interp_destroy(it);
    tt_graph_destroy(g);
    tt_str_fini(&mesh);
    tt_str_fini(&what);
    return status;
}

static tt_status build(const subject *s, int n_chunks, tt_graph **graph_out)
{
    int n = 0;
    const tt_optim_def *optims = tt_optim_all(&n);
    const tt_optim_def *def = &optims[s->index % n];
    tt_train_recipe recipe = {.optim = {.def = def,
                                        .clip = 0.1,
                                        .guard = s->index % 2 == 1,
                                        .ema = s->index % 4 == 2 ? 0.9 : 0},
                              .dtype = TT_F64,
                              .master = TT_F64,
                              .cut = {.n_chunks = n_chunks},
                              .bn_group = s->bn_group};
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    tt_status status =
        tt_opt_defaults(def->op->options, &recipe.optim.params, arena);
    recipe.optim.params.weight_decay = 0.1;
    if (status == TT_OK)
        status = tt_small_build_as(s->small, &recipe, s->batch, graph_out);
    tt_arena_destroy(arena);
    return status;
}

// ---- stages --------------------------------------------------------------

typedef struct staged {
    const char *mesh,
        *tensor_mesh; // the second: of models with a tensor layout
    int n_chunks;
} staged;

static const staged pipelines[] = {
    {"pipe:2", "pipe:2 tensor:2", 2},
    {"data:2 pipe:2", "tensor:2 pipe:2", 4},
    {"pipe:3 data:2", "data:2 pipe:3", 3},
    {"pipe:4", "context:2 pipe:2", 4},
};

static tt_status check_stages(const subject *s, const staged *p, int level)
{
    const char *mesh =
        s->is_tensor && s->small->seq > 0 ? p->tensor_mesh : p->mesh;
    level = strstr(mesh, "data") != NULL ? level % N_LEVELS : 0;
    tt_str what = {0};
    tt_graph *whole = NULL, *g = NULL;
    tt_interp *it = NULL;
    tt_str_addf(&what, "zero %d, %d chunks on %s", level, p->n_chunks, mesh);
    tt_status status = build(s, p->n_chunks, &whole);
    if (status == TT_OK)
        status = rewrite(s, whole, mesh, level, &g);
    if (status == TT_OK)
        status = train(s, g, &it);
    if (status == TT_OK)
        status = check_graph(s, &(other){g, it, tt_str_text(&what)});
    if (status != TT_OK)
        status = tt_fail_context(status, "%s", tt_str_text(&what));
    tt_interp_destroy(it);
    tt_graph_destroy(g);
    tt_graph_destroy(whole);
    tt_str_fini(&what);
    return status;
}

static tt_status check_levels(subject *s)
{
    TT_TRY(build(s, 1, &s->graph));
    TT_TRY(train(s, s->graph, &s->interp));
    for (int level = 0; level < N_LEVELS; level++)
        TT_TRY(check_level(s, level));
    for (int i = 0; i < (int)(sizeof pipelines / sizeof *pipelines); i++)
        TT_TRY(check_stages(s, &pipelines[i], s->index + i));
    return TT_OK;
}

static tt_status check(tt_law_report *r, const tt_small *small,
                       const char *name)
{
    tt_status status = TT_OK;
    for (int i = 0; i < N_RUNS && status == TT_OK; i++) {
        const int index = small->index + 5 * i;
        const bool has_groups = i == 1 && small->needs_batch;
        subject s = {.r = r,
                     .small = small,
                     .name = name,
                     .index = index,
                     .is_tensor = i == 1 && small->tensor != NULL,
                     .batch = has_groups ? 8 : 5,
                     .bn_group = has_groups ? 4 : 0,
                     .n_micro = 1 + index % 2};
        status = check_levels(&s);
        tt_interp_destroy(s.interp);
        tt_graph_destroy(s.graph);
    }
    return status;
}

static tt_status run(tt_law_report *r)
{
    tt_small_each(r, check);
    return TT_OK;
}

const tt_law_def tt_law_ranks = {
    .name = "ranks",
    .doc = "The number of ranks does not change what is computed.",
    .run = run,
};
