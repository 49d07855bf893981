// law_model - every model, small and in fp64:
//
//   text     printed and read back, it is the same graph
//   grad     every weight has a gradient, and it is the finite difference of the loss
//
// What passes make of these graphs is law_pass's matter.

#include "base/alloc.h"
#include "check/law.h"
#include "check/small.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct subject {
    tt_law_report *r;
    const tt_small *small;
    const char *name;
    tt_graph *graph;
    tt_interp *interp; // has run
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

// ---- the law ---------------------------------------------------------------

static tt_status check_all(subject *s)
{
    TT_TRY(tt_small_build(s->small, TT_SMALL_BATCH, &s->graph));
    TT_TRY(tt_small_open(s->graph, &s->interp));
    TT_TRY(tt_interp_run(s->interp));
    check_text(s);
    check_gradients_there(s);
    return check_slopes(s);
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
    .doc = "A model's gradients are finite differences of its loss.",
    .run = run,
};
