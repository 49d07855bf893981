// law_kernel - every kernel of every backend = ref, on the operators' samples and on
// stretched ones, in every float type the backend has; adding to an output
// twice = twice the output; one thread = two threads, to the bit. A kernel that no
// sample reaches is a failure too.

#include "base/alloc.h"
#include "check/law.h"
#include "check/sample.h"
#include "check/stretch.h"
#include "exec/exec.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_KERNELS = 256 };

typedef struct hunt { // which kernels were run
    const char *name[MAX_KERNELS];
    int n;
} hunt;

static void remember(hunt *h, const tt_plan *plan)
{
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const char *name = plan->step[s].choice.name;
        bool known = name == NULL || h->n == MAX_KERNELS;
        for (int i = 0; i < h->n && !known; i++)
            known = strcmp(h->name[i], name) == 0;
        if (!known)
            h->name[h->n++] = name;
    }
}

// A sample run on one backend: outputs as doubles.
typedef struct result {
    int n_out;
    int64_t count[TT_MAX_OUT];
    double *data[TT_MAX_OUT];
} result;

static void result_fini(result *r)
{
    for (int i = 0; i < TT_MAX_OUT; i++)
        tt_free(r->data[i]);
}

static tt_status write_input(tt_exec *exec, const tt_graph *g, tt_val v,
                             const double *data)
{
    const tt_type *type = &g->value[v.id].type;
    const int64_t n = tt_shape_count(&type->shape);
    void *raw = tt_alloc(n * tt_dtype_bytes(type->dtype));
    if (raw == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(type->dtype, raw, i, data[i]);
    const tt_status status = tt_exec_write(exec, v, raw);
    tt_free(raw);
    return status;
}

static tt_status read_output(tt_exec *exec, const tt_graph *g, tt_val v,
                             int64_t *count_out, double **data_out)
{
    const tt_type *type = &g->value[v.id].type;
    const int64_t n = tt_shape_count(&type->shape);
    void *raw = tt_alloc(n * tt_dtype_bytes(type->dtype));
    double *data = tt_alloc(n * 8);
    tt_status status = TT_ERR_NOMEM;
    if (raw == NULL || data == NULL)
        (void)tt_fail(status, "no memory for a law");
    else
        status = tt_exec_read(exec, v, raw);
    for (int64_t i = 0; i < n && status == TT_OK; i++)
        data[i] = tt_dtype_load(type->dtype, raw, i);
    tt_free(raw);
    if (status != TT_OK) {
        tt_free(data);
        return status;
    }
    *count_out = n;
    *data_out = data;
    return TT_OK;
}

static tt_status run_plan(const tt_case *c, const tt_graph *g,
                          const tt_plan *plan, tt_backend *backend, result *out)
{
    const tt_exec_options options = {.poison = true};
    tt_exec *exec = NULL;
    TT_TRY(tt_exec_create(plan, backend, &options, &exec));
    tt_status status = TT_OK;
    for (int i = 0; i < c->n_in && status == TT_OK; i++)
        if (c->data[i] != NULL)
            status = write_input(exec, g, c->in[i], c->data[i]);
    if (status == TT_OK)
        status = tt_exec_run(exec, NULL, NULL);
    if (status == TT_OK && tt_exec_overrun(exec) >= 0)
        status = tt_fail(TT_ERR_STATE, "writes beyond a buffer's end");
    for (int i = 0; i < g->n_outputs && status == TT_OK; i++)
        status = read_output(exec, g, g->output[i].val, &out->count[i],
                             &out->data[i]);
    out->n_out = g->n_outputs;
    tt_exec_destroy(exec);
    return status;
}

typedef struct setting {
    const char *backend;
    int n_threads;
    tt_dtype dtype;
    bool twice; // add output 0 over two micro-batches
} setting;

static tt_status build_case(tt_case *c, const tt_op_def *op,
                            const tt_sample *sample, const setting *s,
                            tt_graph **graph_out)
{
    TT_TRY(tt_case_init(c, op, sample, s->dtype, NULL, NULL));
    if (s->twice) {
        tt_output(&c->b, "sum",
                  tt_call(&c->b, &tt_op_tally, NULL, c->out, 1, NULL));
    } else {
        for (int i = 0; i < c->n_out; i++) {
            char name[16];
            snprintf(name, sizeof name, "out%d", i);
            tt_output(&c->b, name, c->out[i]);
        }
    }
    return tt_builder_take(&c->b, graph_out);
}

static tt_status run_sample(const tt_op_def *op, const tt_sample *sample,
                            const setting *s, hunt *h, result *out)
{
    const tt_backend_options options = {.n_threads = s->n_threads};
    const tt_lower_options lower = {.n_micro = s->twice ? 2 : 1};
    tt_case c;
    tt_graph *g = NULL;
    tt_plan *plan = NULL;
    tt_backend *backend = NULL;
    *out = (result){0};
    tt_status status = build_case(&c, op, sample, s, &g);
    if (status == TT_OK)
        status =
            tt_backend_open(tt_backend_find(s->backend), &options, &backend);
    if (status == TT_OK)
        status = tt_plan_lower(g, &backend->target, &lower, &plan);
    if (status == TT_OK) {
        remember(h, plan);
        status = run_plan(&c, g, plan, backend, out);
    }
    tt_plan_destroy(plan);
    tt_backend_close(backend);
    tt_graph_destroy(g);
    if (c.arena != NULL)
        tt_case_fini(&c);
    if (status != TT_OK)
        result_fini(out);
    return status;
}

static double difference(const double *a, const double *b, int64_t n)
{
    double worst = 0, size = 1e-2;
    for (int64_t i = 0; i < n; i++) {
        if (a[i] == b[i])
            continue;
        const double error = fabs(a[i] - b[i]);
        worst = isfinite(error) ? fmax(worst, error) : (double)INFINITY;
        size = isfinite(b[i]) ? fmax(size, fabs(b[i])) : size;
    }
    return worst / size;
}

static void compare(tt_report *r, const char *what, const result *a,
                    const result *b, double tolerance)
{
    for (int i = 0; i < b->n_out; i++) {
        const double error = difference(a->data[i], b->data[i], b->count[i]);
        tt_report_check(r, error <= tolerance,
                        "kernel %s: output %d is off by %.3g", what, i, error);
    }
}

static double tolerance_of(tt_dtype dtype)
{
    return dtype == TT_F64 ? 1e-12 : dtype == TT_F32 ? 1e-5 : 1.0 / 64;
}

static void check_one(tt_report *r, const tt_op_def *op,
                      const tt_sample *sample, setting s, hunt *h,
                      const char *what)
{
    result ref, fast, one;
    setting as_ref = s;
    as_ref.backend = "ref";
    s.n_threads = 2;
    if (run_sample(op, sample, &as_ref, h, &ref) != TT_OK) {
        tt_report_check(r, false, "kernel %s: ref: %s", what,
                        tt_error_message());
        return;
    }
    tt_status status = run_sample(op, sample, &s, h, &fast);
    tt_report_check(r, status == TT_OK, "kernel %s: %s", what,
                    tt_error_message());
    if (status == TT_OK) {
        compare(r, what, &fast, &ref, tolerance_of(s.dtype));
        s.n_threads = 1;
        status = run_sample(op, sample, &s, h, &one);
        for (int i = 0; i < fast.n_out && status == TT_OK; i++)
            tt_report_check(
                r, difference(one.data[i], fast.data[i], fast.count[i]) <= 1e-5,
                "kernel %s: output %d depends on the threads", what, i);
        result_fini(&one);
    }
    result_fini(&fast);
    result_fini(&ref);
}

// Whether the sample can be built at all in this type.
static bool is_legal(const tt_op_def *op, const tt_sample *sample,
                     tt_dtype dtype)
{
    tt_case c;
    if (tt_case_init(&c, op, sample, dtype, NULL, NULL) != TT_OK)
        return false;
    const bool small =
        tt_shape_count(&tt_type_of(&c.b, c.out[0])->shape) < 1 << 20;
    tt_case_fini(&c);
    return small;
}

static void check_op(tt_report *r, const tt_op_def *op, setting s, hunt *h,
                     tt_arena *arena)
{
    for (const tt_sample *sample = op->samples; sample && sample->in[0];
         sample++) {
        tt_sample big;
        for (int k = 0; tt_stretch(sample, k, arena, &big); k++) {
            char what[160];
            if (!is_legal(op, &big, s.dtype))
                continue;
            for (int twice = 0; twice < 2; twice++) {
                s.twice = twice == 1;
                if (s.twice && (op->flags & TT_OP_ACCUMULATE) != 0)
                    continue;
                snprintf(what, sizeof what, "%s.%s: %s sample %d.%d%s",
                         s.backend, op->name, tt_dtype_name(s.dtype),
                         (int)(sample - op->samples), k,
                         twice ? " added twice" : "");
                check_one(r, op, &big, s, h, what);
            }
        }
    }
}

static void check_hunt(tt_report *r, const tt_backend_def *def, const hunt *h)
{
    // Lowering needs no kernel for these where strides express the result.
    const uint32_t free_flags = TT_OP_VIEW | TT_OP_ALIAS | TT_OP_CONCAT;
    for (int k = 0; def->kernels[k] != NULL; k++) {
        bool found = (def->kernels[k]->op->flags & free_flags) != 0;
        for (int i = 0; i < h->n; i++)
            found |= strcmp(h->name[i], def->kernels[k]->name) == 0;
        tt_report_check(r, found || !tt_report_wants(r, def->kernels[k]->name),
                        "kernel %s: no sample reaches it",
                        def->kernels[k]->name);
    }
}

static tt_status check_backend(tt_report *r, const tt_backend_def *def)
{
    static const tt_dtype dtypes[] = {TT_F32, TT_BF16, TT_F64};
    hunt h = {0};
    int n = 0;
    const tt_op_def *const *ops = tt_op_all(&n);
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    for (int d = 0; d < 3; d++)
        for (int i = 0; i < n; i++) {
            const setting s = {.backend = def->name, .dtype = dtypes[d]};
            if (def->has_dtype(dtypes[d]) && tt_report_wants(r, ops[i]->name) &&
                (ops[i]->flags & TT_OP_COLLECTIVE) == 0)
                check_op(r, ops[i], s, &h, arena);
        }
    check_hunt(r, def, &h);
    tt_arena_destroy(arena);
    return TT_OK;
}

static tt_status run(tt_report *r)
{
    int n = 0;
    const tt_backend_def *const *all = tt_backend_all(&n);
    for (int i = 0; i < n; i++)
        TT_TRY(check_backend(r, all[i]));
    return TT_OK;
}

const tt_law_def tt_law_kernel = {
    .name = "kernel",
    .doc = "Every kernel computes what the reference computes.",
    .run = run,
};
