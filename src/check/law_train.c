// law_train - every model, small and in fp64, lowered and run on one rank:
//
//   plan     no two live buffers overlap; loss and gradients are those of the graph
//   learn    a few steps on one batch lower the loss
//   micro    two micro-batches have the gradient of the whole batch, for models whose
//            samples do not depend on each other
//
// The oracle of `plan` is the interpreter. `learn` needs no oracle: it catches a model
// whose gradient is right but whose update goes nowhere. `micro` holds because losses
// are sums: the division by the number of targets comes once, at the end.

#include "base/alloc.h"
#include "check/law.h"
#include "check/small.h"
#include "exec/exec.h"

#include <math.h>

typedef struct subject {
    tt_law_report *r;
    const tt_small *small;
    const char *name;
    tt_graph *graph;
    tt_interp *interp; // has run
} subject;

typedef struct runner {
    tt_graph *graph;
    tt_backend *backend;
    tt_plan *plan;
    tt_exec *exec;
} runner;

static void runner_fini(runner *run)
{
    tt_exec_destroy(run->exec);
    tt_plan_destroy(run->plan);
    tt_backend_close(run->backend);
    tt_graph_destroy(run->graph);
}

static tt_status write_leaf(tt_exec *exec, tt_val v, int64_t first)
{
    const tt_graph *g = tt_exec_plan(exec)->graph;
    const int64_t n = tt_small_elements(g, v);
    const tt_dtype dtype = g->value[v.id].type.dtype;
    double *data = tt_alloc(16 * n);
    if (data == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    tt_small_fill(g, v, first, data);
    for (int64_t i = 0; i < n; i++) // types are no wider than a double
        tt_dtype_store(dtype, data + n, i, data[i]);
    const tt_status status = tt_exec_write(exec, v, data + n);
    tt_free(data);
    return status;
}

static tt_status feed(void *user, tt_exec *exec, int32_t micro)
{
    const tt_plan *plan = tt_exec_plan(exec);
    const tt_graph *g = plan->graph;
    (void)user;
    const int64_t first = (int64_t)micro * TT_SMALL_BATCH / plan->n_micro;
    if (tt_is(tt_graph_find(g, "first_sample")))
        TT_TRY(tt_exec_set_scalar(exec, "first_sample", (double)first));
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->value[v].role == TT_ROLE_INPUT)
            TT_TRY(
                write_leaf(exec, (tt_val){v},
                           micro * tt_shape_dim(&g->value[v].type.shape, 0)));
    return TT_OK;
}

static tt_status start(runner *run)
{
    const tt_graph *g = run->graph;
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->value[v].node < 0 && g->value[v].role != TT_ROLE_INPUT)
            TT_TRY(write_leaf(run->exec, (tt_val){v}, 0));
    return TT_OK;
}

static tt_status runner_init(runner *run, const tt_small *small,
                             int32_t n_micro)
{
    const tt_backend_options options = {.n_threads = 1};
    const tt_lower_options lower = {.n_micro = n_micro};
    const tt_exec_options exec = {.poison = true, .check_finite = true};
    *run = (runner){0};
    TT_TRY(tt_small_build(small, TT_SMALL_BATCH / n_micro, &run->graph));
    TT_TRY(tt_backend_open(tt_backend_find("ref"), &options, &run->backend));
    TT_TRY(
        tt_plan_lower(run->graph, &run->backend->target, &lower, &run->plan));
    TT_TRY(tt_plan_verify(run->plan));
    TT_TRY(tt_exec_create(run->plan, run->backend, &exec, &run->exec));
    return start(run);
}

static tt_status run_loss(runner *run, double *loss_out)
{
    TT_TRY(tt_exec_run(run->exec, feed, NULL));
    return tt_exec_get_scalar(
        run->exec, tt_graph_output_find(run->graph, "loss"), loss_out);
}

// The largest difference between the executor's gradients and the interpreter's.
static tt_status compare_run(subject *s, runner *run, const char *what)
{
    double worst = 0, largest = 0;
    for (int32_t v = 0; v < s->graph->n_values; v++) {
        if (s->graph->value[v].role != TT_ROLE_PARAM)
            continue;
        const tt_val other = tt_graph_find(run->graph, s->graph->value[v].name);
        const int64_t n = tt_small_elements(s->graph, (tt_val){v});
        double *a = tt_small_read(s->interp, s->graph, s->graph->value[v].grad);
        double *b = tt_alloc(8 * n);
        tt_status status = a && b ? TT_OK : TT_ERR_NOMEM;
        if (status == TT_OK)
            status =
                tt_exec_read(run->exec, run->graph->value[other.id].grad, b);
        for (int64_t i = 0; status == TT_OK && i < n; i++) {
            worst = tt_law_worse(worst, fabs(a[i] - b[i]));
            largest = fmax(largest, fabs(a[i]));
        }
        tt_free(a);
        tt_free(b);
        TT_TRY(status);
    }
    tt_law_report_check(s->r, worst <= 1e-12 * largest,
                        "%s: %s: gradients are off by %.3g", s->name, what,
                        worst / largest);
    return TT_OK;
}

static tt_status check_run(subject *s, runner *run)
{
    double loss = 0, last = 0;
    const double want = tt_small_loss(s->interp, s->graph);
    TT_TRY(run_loss(run, &loss));
    tt_law_report_check(s->r, fabs(loss - want) <= 1e-12 * fabs(want),
                        "%s: plan: the loss is %.17g, not %.17g", s->name, loss,
                        want);
    TT_TRY(compare_run(s, run, "plan"));
    for (int i = 0; i < 4; i++)
        TT_TRY(run_loss(run, &last));
    tt_law_report_check(s->r, last < loss,
                        "%s: learn: the loss rose from %g to %g", s->name, loss,
                        last);
    return TT_OK;
}

static tt_status check_plan(subject *s)
{
    runner run;
    tt_status status = runner_init(&run, s->small, 1);
    if (status == TT_OK)
        status = check_run(s, &run);
    runner_fini(&run);
    return status;
}

static tt_status check_micro(subject *s)
{
    runner run;
    double loss = 0;
    if (s->small->needs_batch)
        return TT_OK;
    tt_status status = runner_init(&run, s->small, 2);
    if (status == TT_OK)
        status = run_loss(&run, &loss);
    if (status == TT_OK)
        status = compare_run(s, &run, "two micro-batches");
    runner_fini(&run);
    return status;
}

static tt_status check_all(subject *s)
{
    TT_TRY(tt_small_build(s->small, TT_SMALL_BATCH, &s->graph));
    TT_TRY(tt_small_open(s->graph, &s->interp));
    TT_TRY(tt_interp_run(s->interp));
    TT_TRY(check_plan(s));
    return check_micro(s);
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

const tt_law_def tt_law_train = {
    .name = "train",
    .doc = "A lowered model has the graph's gradients, and learns.",
    .run = run,
};
