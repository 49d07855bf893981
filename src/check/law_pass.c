// law_pass - every pass keeps the loss and all gradients of every model.
//
// A pass takes a graph and returns another one that must compute the same. So the
// oracle is the graph before it, small and in fp64, run by the interpreter. For each
// model the law applies:
//
//   alone    each sample of each pass (tt_pass_def.samples)
//   pairs    the first sample of a pass, then each sample of each pass that comes
//            later in list.h: that is the order of a chain
//   meshes   partition with the model's own layout over an axis `tensor`, and
//            recompute after it
//
// A pass without samples is a failure, unless its def says which other test has it:
// fp8 rounds, and blocks needs a graph that was cut for it.

#include "base/alloc.h"
#include "check/law.h"
#include "check/small.h"
#include "pass/pass.h"

#include <math.h>
#include <stdio.h>

typedef struct subject {
    tt_law_report *r;
    const tt_small *small;
    bool
        is_wanted; // this model, with all passes; else only passes that are wanted
    tt_graph *graph;
    tt_interp *interp; // has run
    double loss;
} subject;

static bool wants(const subject *s, const tt_pass_def *pass)
{
    return s->is_wanted || tt_law_report_wants(s->r, pass->name);
}

// ---- one graph -------------------------------------------------------------

// The largest difference between a gradient and the subject's, relative to the largest
// entry of all gradients.
static tt_status compare(subject *s, const tt_graph *g, tt_interp *it,
                         const char *what)
{
    double worst = 0, largest = 0;
    const double loss = tt_small_loss(it, g);
    for (int32_t v = 0; v < s->graph->n_values; v++) {
        if (s->graph->value[v].role != TT_ROLE_PARAM)
            continue;
        const tt_val other = tt_graph_find(g, s->graph->value[v].name);
        const tt_val grad = s->graph->value[v].grad;
        double *a = tt_small_read(s->interp, s->graph, grad);
        double *b = tt_small_read(it, g, g->value[other.id].grad);
        for (int64_t i = 0; a && b && i < tt_small_elements(g, other); i++) {
            worst = tt_law_worse(worst, fabs(a[i] - b[i]));
            largest = fmax(largest, fabs(a[i]));
        }
        const bool ok = a != NULL && b != NULL;
        tt_free(a);
        tt_free(b);
        if (!ok)
            return TT_ERR_NOMEM;
    }
    tt_law_report_check(s->r, fabs(loss - s->loss) <= 1e-9 * fabs(s->loss),
                        "%s: the loss is %.12g, not %.12g", what, loss,
                        s->loss);
    tt_law_report_check(s->r, worst <= 1e-9 * largest,
                        "%s: gradients are off by %.3g", what, worst / largest);
    return TT_OK;
}

// Runs a rewritten graph that must compute what the subject computes.
static tt_status check_alike(subject *s, const tt_graph *g, const char *what)
{
    tt_interp *it = NULL;
    TT_TRY(tt_small_open(g, &it));
    tt_status status = tt_interp_run(it);
    if (status == TT_OK)
        status = compare(s, g, it, what);
    tt_interp_destroy(it);
    return status;
}

// A pass with options as text, and two more that may hold blanks (NULL: none).
typedef struct use {
    const tt_pass_def *pass;
    const char *options, *mesh, *layout;
} use;

static tt_status rewrite(const tt_graph *in, const use *u, tt_graph **out)
{
    const tt_pass_def *def = u->pass;
    tt_arena *arena = tt_arena_create();
    void *params = arena ? tt_arena_alloc(arena, def->params_bytes + 1) : NULL;
    tt_status status = params == NULL
                           ? tt_fail(TT_ERR_NOMEM, "no memory for a law")
                           : tt_opt_defaults(def->options, params, arena);
    if (status == TT_OK && u->options != NULL)
        status = tt_opt_parse(def->options, params, u->options, arena);
    if (status == TT_OK && u->mesh != NULL)
        status = tt_opt_set(def->options, params, "mesh", u->mesh, arena);
    if (status == TT_OK && u->layout != NULL)
        status = tt_opt_set(def->options, params, "layout", u->layout, arena);
    if (status == TT_OK)
        status = tt_pass_apply(def, params, in, out);
    tt_arena_destroy(arena);
    return status;
}

// ---- chains of two ---------------------------------------------------------

// Applies `a`, then `b` unless it is NULL; the result must be alike.
static void check_chain(subject *s, const use *a, const use *b)
{
    char what[256];
    tt_graph *once = NULL, *twice = NULL;
    snprintf(what, sizeof what, "pass %s %s%s%s%s%s: %s %s", a->pass->name,
             a->mesh != NULL ? a->mesh : a->options, b ? ", " : "",
             b ? b->pass->name : "", b ? " " : "", b ? b->options : "",
             s->small->model, s->small->options);
    tt_status status = rewrite(s->graph, a, &once);
    if (status == TT_OK && b != NULL)
        status = rewrite(once, b, &twice);
    if (status == TT_OK)
        status = check_alike(s, b != NULL ? twice : once, what);
    if (status != TT_OK)
        tt_law_report_check(s->r, false, "%s: %s", what, tt_error_message());
    tt_graph_destroy(once);
    tt_graph_destroy(twice);
}

// Pass i of the registry alone, and before each that comes later.
static void check_pass(subject *s, int i)
{
    int n = 0;
    const tt_pass_def *const *all = tt_pass_all(&n);
    for (const char *const *o = all[i]->samples; o != NULL && *o; o++) {
        const use alone = {.pass = all[i], .options = *o};
        if (wants(s, all[i]))
            check_chain(s, &alone, NULL);
    }
    for (int k = i + 1; k < n && all[i]->samples != NULL; k++)
        for (const char *const *o = all[k]->samples; o != NULL && *o; o++) {
            const use first = {.pass = all[i], .options = all[i]->samples[0]};
            const use then = {.pass = all[k], .options = *o};
            if (wants(s, all[i]) || wants(s, all[k]))
                check_chain(s, &first, &then);
        }
}

static void check_mesh(subject *s, const char *mesh, const char *layout)
{
    const tt_pass_def *recompute = tt_pass_find("recompute");
    const use cut = {
        .pass = tt_pass_find("partition"), .mesh = mesh, .layout = layout};
    if (!wants(s, cut.pass))
        return;
    check_chain(s, &cut, NULL);
    for (const char *const *o = recompute->samples; *o; o++)
        check_chain(s, &cut, &(use){.pass = recompute, .options = *o});
}

// ---- the law ---------------------------------------------------------------

static tt_status check_all(subject *s)
{
    int n = 0;
    char both[128];
    (void)tt_pass_all(&n);
    TT_TRY(tt_small_build(s->small, TT_SMALL_BATCH, &s->graph));
    TT_TRY(tt_small_open(s->graph, &s->interp));
    TT_TRY(tt_interp_run(s->interp));
    s->loss = tt_small_loss(s->interp, s->graph);
    for (int i = 0; i < n; i++)
        check_pass(s, i);
    if (s->small->tensor == NULL)
        return TT_OK;
    snprintf(both, sizeof both, "batch:data %s", s->small->tensor);
    check_mesh(s, "tensor:2", s->small->tensor);
    check_mesh(s, "data:2 tensor:2", both);
    return TT_OK;
}

static bool is_wanted_pass(const tt_law_report *r)
{
    int n = 0;
    const tt_pass_def *const *all = tt_pass_all(&n);
    for (int i = 0; i < n; i++)
        if (tt_law_report_wants(r, all[i]->name))
            return true;
    return false;
}

static tt_status run(tt_law_report *r)
{
    int n = 0;
    tt_small small;
    const tt_pass_def *const *all = tt_pass_all(&n);
    for (int i = 0; i < n; i++)
        if (tt_law_report_wants(r, all[i]->name))
            tt_law_report_check(
                r, all[i]->samples != NULL || all[i]->tested_by != NULL,
                "pass %s has no samples: texts of options that keep what a "
                "model computes (tt_pass_def)",
                all[i]->name);
    for (int i = 0; tt_small_at(i, &small); i++) {
        subject s = {.r = r,
                     .small = &small,
                     .is_wanted = tt_law_report_wants(r, small.model)};
        if (!s.is_wanted && !is_wanted_pass(r))
            continue;
        const tt_status status = check_all(&s);
        if (status != TT_OK)
            tt_law_report_check(r, false, "pass: %s %s: %s", small.model,
                                small.options, tt_error_message());
        tt_interp_destroy(s.interp);
        tt_graph_destroy(s.graph);
    }
    return TT_OK;
}

const tt_law_def tt_law_pass = {
    .name = "pass",
    .doc = "Every pass keeps the loss and the gradients of every model.",
    .run = run,
};
