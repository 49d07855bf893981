// law_model - every model, small and in fp64:
//
//   text     printed and read back, it is the same graph
//   grad     every weight has a gradient, and it is the finite difference of the loss
//   passes   each pass, and passes after each other, keep the loss and all gradients
//
// A pass takes a graph and returns another one that must compute the same. So the
// oracle is the graph before the pass, run by the interpreter. A new pass is added to
// check_passes by hand, alone and together with the passes that may come before and
// after it.

#include "base/alloc.h"
#include "check/law.h"
#include "check/small.h"
#include "ops/ops.h"
#include "pass/pass.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct subject {
    tt_law_report *r;
    const tt_small *small;
    const char *name;
    tt_graph *graph;
    tt_interp *interp; // has run
    double loss;
} subject;

static bool is_param(const tt_graph *g, int32_t v)
{
    return g->value[v].role == TT_ROLE_PARAM;
}

// ---- the graph by itself ---------------------------------------------------

static void check_text(subject *s)
{
    tt_str first = {0}, second = {0};
    tt_graph *again = NULL;
    tt_graph_print(s->graph, &first);
    const tt_status status =
        tt_graph_parse(tt_str_text(&first), tt_op_find, &again);
    if (status == TT_OK)
        tt_graph_print(again, &second);
    tt_law_report_check(s->r,
                        status == TT_OK && strcmp(tt_str_text(&first),
                                                  tt_str_text(&second)) == 0,
                        "%s: text: %s", s->name,
                        status == TT_OK ? "is another graph when read back"
                                        : tt_error_message());
    tt_graph_destroy(again);
    tt_str_fini(&first);
    tt_str_fini(&second);
}

static void check_gradients_there(subject *s)
{
    for (int32_t v = 0; v < s->graph->n_values; v++)
        if (is_param(s->graph, v))
            tt_law_report_check(s->r, tt_is(s->graph->value[v].grad),
                                "%s: %s has no gradient", s->name,
                                s->graph->value[v].name);
}

// ---- finite differences ----------------------------------------------------

enum { N_PROBES = 6 };

static tt_status run_at(subject *s, tt_val w, double *data, int64_t i,
                        double value, double *loss_out)
{
    const double old = data[i];
    data[i] = value;
    tt_interp_write(s->interp, w, data);
    const tt_status status = tt_interp_run(s->interp);
    data[i] = old;
    *loss_out = tt_small_loss(s->interp, s->graph);
    return status;
}

// One element of one weight, by the difference of fourth order: deep networks curve
// too much for the second.
static tt_status probe(subject *s, tt_val w, int64_t i, double gradient)
{
    static const double at[] = {1, -1, 2, -2}, weight[] = {8, -8, -1, 1};
    const double h = 2e-6;
    double slope = 0, loss = 0;
    tt_status status = TT_OK;
    double *data = tt_small_read(s->interp, s->graph, w);
    if (data == NULL)
        return TT_ERR_NOMEM;
    for (int k = 0; k < 4 && status == TT_OK; k++) {
        status = run_at(s, w, data, i, data[i] + at[k] * h, &loss);
        slope += weight[k] * loss / (12 * h);
    }
    tt_interp_write(s->interp, w, data);
    tt_free(data);
    tt_law_report_check(
        s->r, fabs(slope - gradient) <= 1e-7 * fmax(1, fabs(slope)),
        "%s: grad: d/d%s[%lld] is %.12g, not %.12g", s->name,
        s->graph->value[w.id].name, (long long)i, gradient, slope);
    return status;
}

// A whole model has too many elements to probe all. A few weights are taken, spread
// over the depth, with one element each. Gradients are read before the probes run,
// since each probe overwrites them.
static tt_status check_slopes(subject *s)
{
    const tt_graph *g = s->graph;
    int n_params = 0, seen = 0;
    for (int32_t v = 0; v < g->n_values; v++)
        n_params += is_param(g, v) ? 1 : 0;
    const int every = n_params / N_PROBES + 1;
    tt_val w[N_PROBES];
    int64_t at[N_PROBES];
    double gradient[N_PROBES];
    int n = 0;
    for (int32_t v = 0; v < g->n_values && n < N_PROBES; v++) {
        if (!is_param(g, v) || seen++ % every != 0)
            continue;
        double *grad = tt_small_read(s->interp, g, g->value[v].grad);
        if (grad == NULL)
            return TT_ERR_NOMEM;
        w[n] = (tt_val){v};
        at[n] = (int64_t)7 * v % tt_small_elements(g, w[n]);
        gradient[n] = grad[at[n]];
        tt_free(grad);
        n++;
    }
    for (int i = 0; i < n; i++)
        TT_TRY(probe(s, w[i], at[i], gradient[i]));
    return tt_interp_run(s->interp);
}

// ---- passes ----------------------------------------------------------------

// The largest difference between a gradient and the subject's, relative to the largest
// entry of all gradients.
static tt_status compare(subject *s, const tt_graph *g, tt_interp *it,
                         const char *what)
{
    double worst = 0, largest = 0;
    const double loss = tt_small_loss(it, g);
    for (int32_t v = 0; v < s->graph->n_values; v++) {
        if (!is_param(s->graph, v))
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
                        "%s: %s: the loss is %.12g, not %.12g", s->name, what,
                        loss, s->loss);
    tt_law_report_check(s->r, worst <= 1e-9 * largest,
                        "%s: %s: gradients are off by %.3g", s->name, what,
                        worst / largest);
    return TT_OK;
}

// Applies one pass with options as text.
static tt_status rewrite(const tt_graph *in, const char *pass,
                         const char *const *options, tt_graph **out)
{
    const tt_pass_def *def = tt_pass_find(pass);
    tt_arena *arena = tt_arena_create();
    void *params = arena ? tt_arena_alloc(arena, def->params_bytes) : NULL;
    tt_status status = params == NULL
                           ? tt_fail(TT_ERR_NOMEM, "no memory for a law")
                           : tt_opt_defaults(def->options, params, arena);
    for (; status == TT_OK && *options != NULL; options += 2)
        status =
            tt_opt_set(def->options, params, options[0], options[1], arena);
    if (status == TT_OK)
        status = tt_pass_apply(def, params, in, out);
    tt_arena_destroy(arena);
    return status;
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

static tt_status check_recompute(subject *s, const tt_graph *g,
                                 const char *mode, const char *where)
{
    char what[96];
    tt_graph *again = NULL;
    const char *const options[] = {"mode", mode, NULL};
    snprintf(what, sizeof what, "recompute %s%s", mode, where);
    TT_TRY(rewrite(g, "recompute", options, &again));
    const tt_status status = check_alike(s, again, what);
    tt_graph_destroy(again);
    return status;
}

static tt_status check_fuse(subject *s)
{
    tt_graph *fused = NULL, *again = NULL;
    const char *const none[] = {NULL}, *const mode[] = {"mode", "full", NULL};
    TT_TRY(rewrite(s->graph, "fuse", none, &fused));
    tt_status status = check_alike(s, fused, "fuse");
    tt_graph_destroy(fused);
    if (status != TT_OK)
        return status;
    TT_TRY(rewrite(s->graph, "recompute", mode, &again));
    status = rewrite(again, "fuse", none, &fused);
    tt_graph_destroy(again);
    if (status != TT_OK)
        return status;
    status = check_alike(s, fused, "fuse what is recomputed");
    tt_graph_destroy(fused);
    return status;
}

static tt_status check_partition(subject *s, const char *mesh,
                                 const char *layout)
{
    tt_graph *parts = NULL;
    const char *const options[] = {"mesh", mesh, "layout", layout, NULL};
    TT_TRY(rewrite(s->graph, "partition", options, &parts));
    tt_status status = check_alike(s, parts, mesh);
    if (status == TT_OK)
        status = check_recompute(s, parts, "selective", " on parts");
    if (status == TT_OK)
        status = check_recompute(s, parts, "full", " on parts");
    tt_graph_destroy(parts);
    return status;
}

// The loss in two chunks, in more chunks than there are rows, and on ranks that share
// the rows.
static tt_status check_chunks(subject *s)
{
    tt_graph *chunked = NULL, *parts = NULL;
    const char *const two[] = {"chunks", "2", "cuts", "batch:2", NULL};
    const char *const many[] = {"chunks", "1000", NULL};
    const char *const data[] = {"mesh", "data:2", "layout", "batch:data", NULL};
    TT_TRY(rewrite(s->graph, "chunk", many, &chunked));
    tt_status status = check_alike(s, chunked, "chunk");
    tt_graph_destroy(chunked);
    if (status != TT_OK)
        return status;
    TT_TRY(rewrite(s->graph, "chunk", two, &chunked));
    status = rewrite(chunked, "partition", data, &parts);
    if (status == TT_OK)
        status = check_alike(s, parts, "chunk on data:2");
    if (status == TT_OK)
        status = check_recompute(s, chunked, "full", " in chunks");
    tt_graph_destroy(parts);
    tt_graph_destroy(chunked);
    return status;
}

// Activations that are moved to the host and back are still the same.
static tt_status check_offload(subject *s)
{
    tt_graph *moved = NULL;
    const char *const all[] = {NULL};
    TT_TRY(rewrite(s->graph, "offload", all, &moved));
    const tt_status status = check_alike(s, moved, "offload");
    tt_graph_destroy(moved);
    return status;
}

static tt_status check_passes(subject *s)
{
    TT_TRY(check_recompute(s, s->graph, "selective", ""));
    TT_TRY(check_recompute(s, s->graph, "full", ""));
    TT_TRY(check_fuse(s));
    TT_TRY(check_chunks(s));
    TT_TRY(check_offload(s));
    TT_TRY(check_partition(s, "data:2", "batch:data"));
    if (s->small->tensor == NULL)
        return TT_OK;
    char both[128];
    snprintf(both, sizeof both, "batch:data %s", s->small->tensor);
    TT_TRY(check_partition(s, "tensor:2", s->small->tensor));
    return check_partition(s, "data:2 tensor:2", both);
}

// ---- the law ---------------------------------------------------------------

static tt_status check_all(subject *s)
{
    TT_TRY(tt_small_build(s->small, TT_SMALL_BATCH, &s->graph));
    TT_TRY(tt_small_open(s->graph, &s->interp));
    TT_TRY(tt_interp_run(s->interp));
    s->loss = tt_small_loss(s->interp, s->graph);
    check_text(s);
    check_gradients_there(s);
    TT_TRY(check_slopes(s));
    return check_passes(s);
}

static tt_status check(tt_law_report *r, const tt_small *small,
                       const char *name)
{
    subject s = {.r = r, .small = small, .name = name};
    const tt_status status = check_all(&s);
    tt_interp_destroy(s.interp);
    tt_graph_destroy(s.graph);
    return status;
}

static tt_status run(tt_law_report *r)
{
    tt_small_each(r, check);
    return TT_OK;
}

const tt_law_def tt_law_model = {
    .name = "model",
    .doc = "A model's gradients are right, and passes do not change them.",
    .run = run,
};
