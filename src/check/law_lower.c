// law_lower - lowering changes nothing.
//
// Lowering turns values into views, joins concatenations in place and lets a kernel
// overwrite an input that nobody needs any more. Each of these is an aliasing bug if
// it is decided wrongly. So every operator is run twice: by the executor, with all of
// that, and by the interpreter, with a dense buffer per value. Bits must be equal.
//
//   input --> scale by 1 --> OPERATOR --> scale by 0.5 --> output
//
// The operator stands between two others. Its inputs are then produced (so they may be
// written in place) and its outputs are read (so they may be views). Memory is
// poisoned.

#include "base/alloc.h"
#include "check/law.h"
#include "check/sample.h"
#include "exec/exec.h"
#include "interp/interp.h"
#include "ops/arith.h"
#include "ops/ops.h"

#include <stdio.h>
#include <string.h>

static tt_val scale_float(tt_builder *b, tt_val v, double by)
{
    if (!tt_is(v) || !tt_dtype_is_float(tt_type_of(b, v)->dtype))
        return v;
    return tt_scale(b, v, by);
}

static tt_status build(tt_case *c, const tt_op_def *op, const tt_sample *sample,
                       tt_graph **graph_out)
{
    tt_val in[TT_SAMPLE_IN], out[TT_MAX_OUT];
    TT_TRY(tt_case_init(c, op, sample, TT_F64, NULL, NULL));
    tt_builder *b = &c->b;
    for (int i = 0; i < c->n_in; i++)
        in[i] = scale_float(b, c->in[i], 1);
    (void)tt_call(b, op, c->params, in, c->n_in, out);
    for (int i = 0; i < c->n_out; i++) {
        char name[16];
        snprintf(name, sizeof(name), "out%d", i);
        tt_output(b, name, scale_float(b, out[i], 0.5));
    }
    return tt_builder_take(b, graph_out);
}

static tt_status write_all(const tt_case *c, tt_exec *exec, tt_interp *interp)
{
    for (int i = 0; i < c->n_in; i++) {
        if (c->data[i] == NULL)
            continue;
        tt_interp_write(interp, c->in[i], c->data[i]);
        TT_TRY(
            tt_exec_write(exec, c->in[i], tt_interp_data(interp, 0, c->in[i])));
    }
    return TT_OK;
}

static tt_status compare(tt_law_report *r, const tt_graph *g, tt_exec *exec,
                         tt_interp *interp, const char *what)
{
    for (int32_t i = 0; i < g->n_outputs; i++) {
        const tt_val v = g->output[i].val;
        const tt_type *type = &g->value[v.id].type;
        const int64_t bytes =
            tt_shape_count(&type->shape) * tt_dtype_bytes(type->dtype);
        void *got = tt_alloc(bytes);
        if (got == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory for a law");
        const tt_status status = tt_exec_read(exec, v, got);
        const bool equal =
            status == TT_OK &&
            memcmp(got, tt_interp_data(interp, 0, v), (size_t)bytes) == 0;
        tt_free(got);
        tt_law_report_check(r, equal, "lower %s: output %d differs", what,
                            (int)i);
    }
    return TT_OK;
}

static tt_status run_both(tt_law_report *r, const tt_case *c, const tt_graph *g,
                          const char *what)
{
    const tt_backend_options options = {.n_threads = 1};
    const tt_exec_options exec_options = {.poison = true};
    tt_backend *backend = NULL;
    tt_plan *plan = NULL;
    tt_exec *exec = NULL;
    tt_interp *interp = NULL;
    tt_status status = tt_interp_create(g, &interp);
    if (status == TT_OK)
        status = tt_backend_open(tt_backend_find("ref"), &options, &backend);
    if (status == TT_OK)
        status =
            tt_plan_lower(g, &backend->target, &(tt_lower_options){0}, &plan);
    if (status == TT_OK)
        status = tt_exec_create(plan, backend, &exec_options, &exec);
    if (status == TT_OK)
        status = write_all(c, exec, interp);
    if (status == TT_OK)
        status = tt_interp_run(interp);
    if (status == TT_OK)
        status = tt_exec_run(exec, NULL, NULL);
    if (status == TT_OK)
        status = compare(r, g, exec, interp, what);
    tt_exec_destroy(exec);
    tt_plan_destroy(plan);
    tt_backend_close(backend);
    tt_interp_destroy(interp);
    return status;
}

static void check_sample(tt_law_report *r, const tt_op_def *op,
                         const tt_sample *sample)
{
    tt_case c;
    tt_graph *g = NULL;
    char what[96];
    snprintf(what, sizeof(what), "%s: sample %d", op->name,
             (int)(sample - op->samples));
    tt_status status = build(&c, op, sample, &g);
    if (status == TT_OK)
        status = run_both(r, &c, g, what);
    tt_law_report_check(r, status == TT_OK, "lower %s: %s", what,
                        tt_error_message());
    tt_graph_destroy(g);
    if (c.arena != NULL)
        tt_case_fini(&c);
}

static tt_status run(tt_law_report *r)
{
    int n = 0;
    const tt_op_def *const *ops = tt_op_all(&n);
    for (int i = 0; i < n; i++) {
        if (!tt_law_report_wants(r, ops[i]->name) || ops[i]->samples == NULL ||
            (ops[i]->flags & TT_OP_COLLECTIVE) != 0)
            continue;
        for (const tt_sample *s = ops[i]->samples; s->in[0] != NULL; s++)
            check_sample(r, ops[i], s);
    }
    return TT_OK;
}

const tt_law_def tt_law_lower = {
    .name = "lower",
    .doc = "A lowered graph computes what the graph says, bit for bit.",
    .run = run,
};
