// law_grad - the gradient of every operator is its finite difference, in fp64.
//
// Idea: give the outputs random weights g, so that L = sum(g * out) is one number. Its
// derivative with respect to every input element is computed twice: by the operator's
// own gradient, and by central differences (L(x + h) - L(x - h)) / 2h. In fp64 with h
// = 1e-5 the difference itself is right to about 1e-10, so the tolerance of 1e-7
// leaves room and still catches any wrong sign or factor.
//
// Each sample is tried for all inputs and outputs together, then for each input alone
// (only its gradient is asked for) and for each output alone (nothing flows back from
// the others). Gradients often have shortcuts for these cases, and those are forgotten
// first.
//
// An operator from outside may have a kernel in fp32 only. There a difference over
// 1e-5 would be nothing but rounding. So h is 1/32 and the difference is of fourth
// order. Its error is h^4/30 of the fifth derivative (3e-8), plus the rounding of sums
// (n terms up to 2, each to 2^-24) divided by h: 1.5 * 32 * n * 2^-23.

#include "base/alloc.h"
#include "base/rng.h"
#include "check/law.h"
#include "check/sample.h"
#include "interp/interp.h"
#include "ops/ops.h"

#include <math.h>

// One sample, differentiated with respect to some inputs from some outputs.
typedef struct trial {
    tt_case c;
    int only_in, only_out; // -1: all
    tt_dtype dtype;
    tt_interp *it;
    tt_val seed[TT_MAX_OUT]; // inputs that carry g; TT_NONE: not a float
    double *weight[TT_MAX_OUT];
    tt_val wrt[TT_SAMPLE_IN], grad[TT_SAMPLE_IN];
    int which[TT_SAMPLE_IN];
    int n_wrt, n_of;
} trial;

static int64_t count(const trial *t, tt_val v)
{
    return tt_shape_count(&t->c.b.graph->value[v.id].type.shape);
}

static tt_status add_seeds(trial *t)
{
    tt_case *c = &t->c;
    for (int i = 0; i < TT_MAX_OUT; i++)
        t->seed[i] = TT_NONE;
    for (int i = 0; i < c->n_out; i++) {
        char name[16] = "seed0";
        const tt_type *type = tt_type_of(&c->b, c->out[i]);
        t->seed[i] = TT_NONE;
        // A cast to fewer bits rounds, so its differences mean nothing.
        if (type->dtype != t->dtype || (c->op->no_grad >> i & 1) != 0 ||
            (t->only_out >= 0 && t->only_out != i))
            continue;
        t->n_of++;
        name[4] = (char)('0' + i);
        tt_str shape = {0};
        tt_shape_print(&type->shape, &shape);
        t->seed[i] = tt_input(&c->b, name, type->dtype, tt_str_text(&shape));
        tt_str_fini(&shape);
        TT_TRY(c->b.status);
        const int64_t n = count(t, t->seed[i]);
        t->weight[i] = tt_arena_alloc(c->arena, n * (int64_t)sizeof(double));
        if (t->weight[i] == NULL)
            return TT_ERR_NOMEM;
        tt_sample_fill("f", tt_rng_key(9, name, 0), n, t->weight[i]);
    }
    return TT_OK;
}

static tt_status differentiate(trial *t)
{
    tt_case *c = &t->c;
    tt_val of[TT_MAX_OUT], seed[TT_MAX_OUT];
    int n_of = 0;
    for (int i = 0; i < c->n_out; i++)
        if (tt_is(t->seed[i])) {
            of[n_of] = c->out[i];
            seed[n_of++] = t->seed[i];
        }
    for (int i = 0; i < c->n_in; i++)
        if (tt_case_varies(c, i) && (t->only_in < 0 || t->only_in == i)) {
            t->which[t->n_wrt] = i;
            t->wrt[t->n_wrt++] = c->in[i];
        }
    return tt_grad_values(&c->b, &(tt_grad_of){of, seed, n_of}, t->wrt,
                          t->n_wrt, t->grad);
}

static tt_status start(trial *t, const tt_op_def *op, const tt_sample *sample)
{
    TT_TRY(tt_case_init(&t->c, op, sample, t->dtype, NULL, NULL));
    tt_status status = add_seeds(t);
    if (status == TT_OK)
        status = differentiate(t);
    if (status == TT_OK)
        status = tt_graph_verify(t->c.b.graph);
    if (status == TT_OK)
        status = tt_interp_create(t->c.b.graph, &t->it);
    if (status != TT_OK)
        tt_case_fini(&t->c);
    return status;
}

static tt_status evaluate(trial *t)
{
    for (int i = 0; i < t->c.n_in; i++)
        if (t->c.data[i] != NULL)
            tt_interp_write(t->it, t->c.in[i], t->c.data[i]);
    for (int i = 0; i < t->c.n_out; i++)
        if (tt_is(t->seed[i]))
            tt_interp_write(t->it, t->seed[i], t->weight[i]);
    return tt_interp_run(t->it);
}

static tt_status loss(trial *t, double *loss_out)
{
    TT_TRY(evaluate(t));
    double sum = 0;
    for (int i = 0; i < t->c.n_out; i++) {
        if (!tt_is(t->seed[i]))
            continue;
        const double *out = tt_interp_data(t->it, 0, t->c.out[i]);
        for (int64_t k = 0; k < count(t, t->c.out[i]); k++)
            if (isfinite(out[k])) // a row without keys has lse -inf
                sum += out[k] * t->weight[i][k];
    }
    *loss_out = sum;
    return TT_OK;
}

// Whether anything in the trial computes in fp32.
static bool is_single(const trial *t)
{
    const tt_graph *g = t->c.b.graph;
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (g->node[i].op->is_single)
            return true;
    return false;
}

// Central difference. `x` is the element of the input that is varied.
static tt_status slope_over(trial *t, double *x, double step, double *slope_out)
{
    const double old = *x;
    double up, down;
    *x = old + step;
    TT_TRY(loss(t, &up));
    *x = old - step;
    TT_TRY(loss(t, &down));
    *x = old;
    *slope_out = (up - down) / (2 * step);
    return TT_OK;
}

// In fp32 the differences over h and 2h are combined (Richardson), which cancels the
// error of second order.
static tt_status difference(trial *t, double *x, double *slope_out)
{
    const double step = 1.0 / 32;
    double once, twice;
    if (!is_single(t))
        return slope_over(t, x, 1e-5, slope_out);
    TT_TRY(slope_over(t, x, step, &once));
    TT_TRY(slope_over(t, x, 2 * step, &twice));
    *slope_out = (4 * once - twice) / 3;
    return TT_OK;
}

static double tolerance_of(const trial *t)
{
    double terms = 0;
    if (!is_single(t))
        return 1e-7;
    for (int i = 0; i < t->c.n_out; i++)
        if (tt_is(t->seed[i]))
            terms += (double)count(t, t->c.out[i]);
    return 1e-6 + 1.5 * 32 * terms / (1 << 23);
}

static tt_status compare(tt_law_report *r, trial *t, int w,
                         const double *analytic)
{
    const int i = t->which[w];
    const int64_t n = count(t, t->wrt[w]);
    double worst = 0, size = 0;
    int64_t at = 0;
    for (int64_t k = 0; k < n; k++) {
        double slope;
        TT_TRY(difference(t, &t->c.data[i][k], &slope));
        const double error = fabs(slope - analytic[k]);
        size = fmax(size, fabs(slope));
        at = tt_law_worse(worst, error) > worst ? k : at;
        worst = tt_law_worse(worst, error);
    }
    tt_law_report_check(
        r, worst <= tolerance_of(t) * fmax(1, size),
        "grad %s: sample %d, input %d, element %lld: off by %.3g of %.3g",
        t->c.op->name, (int)(t->c.sample - t->c.op->samples), i, (long long)at,
        worst, size);
    return TT_OK;
}

// The graph computes values and gradients at once, so the analytic gradient is read
// before differences overwrite it.
static tt_status check_inputs(tt_law_report *r, trial *t)
{
    TT_TRY(evaluate(t));
    for (int w = 0; w < t->n_wrt; w++) {
        const int64_t n = count(t, t->wrt[w]);
        double *analytic = tt_arena_alloc(t->c.arena, n * 8);
        if (analytic == NULL)
            return TT_ERR_NOMEM;
        if (tt_is(t->grad[w])) {
            const double *data = tt_interp_data(t->it, 0, t->grad[w]);
            for (int64_t k = 0; k < n; k++)
                analytic[k] = data[k];
        }
        TT_TRY(compare(r, t, w, analytic));
        TT_TRY(evaluate(t)); // the analytic ones again
    }
    return TT_OK;
}

// Leaves in `t` how many inputs and outputs were differentiated, for check_sample.
static void check_part(tt_law_report *r, const tt_op_def *op,
                       const tt_sample *s, trial *t)
{
    tt_status status = start(t, op, s);
    if (status == TT_OK) {
        status = check_inputs(r, t);
        tt_interp_destroy(t->it);
        tt_case_fini(&t->c);
    }
    tt_law_report_check(r, status == TT_OK, "grad %s: sample %d: %s", op->name,
                        (int)(s - op->samples), tt_error_message());
}

// In bf16 a gradient has the extents of its input and at least its precision. The
// numbers are not compared: bf16 is too coarse for differences.
static void check_types(tt_law_report *r, const tt_op_def *op,
                        const tt_sample *s)
{
    trial t = {.only_in = -1, .only_out = -1, .dtype = TT_BF16};
    if (start(&t, op, s) != TT_OK)
        return; // the operator takes no bf16
    for (int i = 0; i < t.n_wrt; i++) {
        if (!tt_is(t.grad[i]))
            continue;
        const tt_type *of = tt_type_of(&t.c.b, t.wrt[i]);
        const tt_type *grad = tt_type_of(&t.c.b, t.grad[i]);
        tt_law_report_check(
            r,
            tt_shape_same_dims(&of->shape, &grad->shape) &&
                tt_dtype_bytes(grad->dtype) >= tt_dtype_bytes(of->dtype),
            "grad %s: sample %d, input %d: the gradient has another type",
            op->name, (int)(s - op->samples), t.which[i]);
    }
    tt_interp_destroy(t.it);
    tt_case_fini(&t.c);
}

static void check_sample(tt_law_report *r, const tt_op_def *op,
                         const tt_sample *s)
{
    trial all = {.only_in = -1, .only_out = -1, .dtype = TT_F64};
    check_types(r, op, s);
    check_part(r, op, s, &all);
    for (int i = 0; i < all.n_wrt && all.n_wrt > 1; i++) {
        trial one = {.only_in = all.which[i], .only_out = -1, .dtype = TT_F64};
        check_part(r, op, s, &one);
    }
    for (int i = 0; i < TT_MAX_OUT && all.n_of > 1; i++) {
        trial one = {.only_in = -1, .only_out = i, .dtype = TT_F64};
        if (tt_is(all.seed[i]))
            check_part(r, op, s, &one);
    }
}

static tt_status run(tt_law_report *r)
{
    int n = 0;
    const tt_op_def *const *ops = tt_op_all(&n);
    for (int i = 0; i < n; i++)
        if (tt_law_report_wants(r, ops[i]->name) && ops[i]->grad != NULL &&
            (ops[i]->flags & TT_OP_COLLECTIVE) == 0)
            for (const tt_sample *s = ops[i]->samples; s && s->in[0]; s++)
                check_sample(r, ops[i], s);
    return TT_OK;
}

const tt_law_def tt_law_grad = {
    .name = "grad",
    .doc = "The gradient of every operator is its finite difference.",
    .run = run,
};
