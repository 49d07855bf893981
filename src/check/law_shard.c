// law_shard - every sharding signature of every operator is right.
//
// A signature says: "with inputs placed like this, each rank runs the operator on its
// own parts, and the output is placed like that". For example, matmul with the inner
// dimension split gives a Partial sum. The partition pass believes signatures without
// a check, so a wrong one silently trains something else.
//
//   whole operands --> operator ----------------------------> whole result
//        |                                                         || 1e-9
//        +-- cut --> operator (or `expand`) on 2, 3 ranks -- join --> result
//
// `expand` is for signatures that need more than the operator itself (a correction,
// another collective). Splits of a sequence are tried in zigzag order too.

#include "base/alloc.h"
#include "check/law.h"
#include "check/sample.h"
#include "interp/interp.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

static tt_status run_case(tt_case *c, tt_interp **it_out)
{
    tt_interp *it = NULL;
    TT_TRY(tt_graph_verify(c->b.graph));
    TT_TRY(tt_interp_create(c->b.graph, &it));
    for (int i = 0; i < c->n_in; i++)
        if (c->data[i] != NULL)
            tt_interp_write(it, c->in[i], c->data[i]);
    const tt_status status = tt_interp_run(it);
    if (status != TT_OK) {
        tt_interp_destroy(it);
        return status;
    }
    *it_out = it;
    return TT_OK;
}

// The largest difference, relative to the largest entry. Equal infinities are equal.
static double difference(const double *a, const double *b, int64_t n)
{
    double worst = 0, size = 1e-3;
    for (int64_t i = 0; i < n; i++) {
        if (a[i] == b[i])
            continue;
        const double error = fabs(a[i] - b[i]);
        worst = tt_law_worse(worst, error);
        size = isfinite(b[i]) ? fmax(size, fabs(b[i])) : size;
    }
    return worst / size;
}

static tt_status compare(tt_law_report *r, const tt_case *whole, tt_interp *one,
                         const tt_case *cut, tt_interp *many, const char *what)
{
    for (int i = 0; i < whole->n_out; i++) {
        if (!tt_is(cut->out[i])) {
            tt_law_report_check(r, false, "%s: output %d is missing", what, i);
            continue;
        }
        const int64_t n =
            tt_shape_count(&whole->b.graph->value[whole->out[i].id].type.shape);
        double *a = tt_alloc(n * 8 + 8), *b = tt_alloc(n * 8 + 8);
        if (a != NULL && b != NULL) {
            (void)tt_interp_read(one, whole->out[i], b);
            const bool agree = tt_interp_read(many, cut->out[i], a);
            const double error = difference(a, b, n);
            tt_law_report_check(r, agree && error <= 1e-9,
                                "%s: output %d is off by %.3g%s", what, i,
                                error, agree ? "" : ", the ranks disagree");
        }
        const bool ok = a != NULL && b != NULL;
        tt_free(a);
        tt_free(b);
        if (!ok)
            return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    }
    return TT_OK;
}

static void describe(const tt_case *c, const tt_sig *sig, int size, tt_str *out)
{
    tt_str_addf(out, "shard %s: sample %d on %d ranks: ", c->op->name,
                (int)(c->sample - c->op->samples), size);
    for (int i = 0; i < c->n_in; i++) {
        tt_str_add(out, i > 0 ? " " : "");
        if (tt_is(c->in[i]))
            tt_place_print(&sig->in[i],
                           &c->b.graph->value[c->in[i].id].type.shape, out);
        else
            tt_str_add(out, "_");
    }
    tt_str_add(out, " ->");
    for (int i = 0; i < c->n_out; i++) {
        tt_str_add(out, " ");
        tt_place_print(&sig->out[i],
                       &c->b.graph->value[c->out[i].id].type.shape, out);
    }
}

static tt_status check_sig(tt_law_report *r, const tt_case *whole,
                           tt_interp *one, int size, const tt_sig *sig)
{
    tt_mesh mesh = {.n_axes = 1};
    memcpy(mesh.axis[0].name, "x", 2);
    mesh.axis[0].size = size;
    tt_str what = {0};
    describe(whole, sig, size, &what);
    tt_case cut;
    tt_interp *many = NULL;
    tt_status status =
        tt_case_init(&cut, whole->op, whole->sample, TT_F64, &mesh, sig);
    tt_law_report_check(r, status == TT_OK, "%s: %s", tt_str_text(&what),
                        tt_error_message());
    if (status == TT_OK) {
        status = run_case(&cut, &many);
        tt_law_report_check(r, status == TT_OK, "%s: %s", tt_str_text(&what),
                            tt_error_message());
        if (status == TT_OK)
            status = compare(r, whole, one, &cut, many, tt_str_text(&what));
        tt_interp_destroy(many);
        tt_case_fini(&cut);
    }
    tt_str_fini(&what);
    return status == TT_ERR_NOMEM ? status : TT_OK; // else it is in the report
}

static tt_status check_sizes(tt_law_report *r, const tt_case *whole,
                             tt_interp *one)
{
    tt_type in[TT_SAMPLE_IN], out[TT_MAX_OUT];
    tt_op_io io;
    tt_sigs *sigs = tt_alloc(sizeof *sigs);
    if (sigs == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    tt_node_io(whole->b.graph,
               &whole->b.graph->node[whole->b.graph->n_nodes - 1], in, out,
               &io);
    for (int size = 2; size <= 3; size++) {
        sigs->n = 0;
        whole->op->shard(&io, size, sigs);
        for (int s = 0; s < sigs->n; s++) {
            (void)check_sig(r, whole, one, size, &sigs->sig[s]);
            if (tt_sig_splits(&io, &sigs->sig[s], "seq") &&
                tt_sig_bend(&io, &sigs->sig[s]))
                (void)check_sig(r, whole, one, size, &sigs->sig[s]);
        }
    }
    tt_free(sigs);
    return TT_OK;
}

static tt_status check_sample(tt_law_report *r, const tt_op_def *op,
                              const tt_sample *sample)
{
    tt_case whole;
    tt_interp *one = NULL;
    TT_TRY(tt_case_init(&whole, op, sample, TT_F64, NULL, NULL));
    tt_status status = run_case(&whole, &one);
    if (status == TT_OK)
        status = check_sizes(r, &whole, one);
    tt_interp_destroy(one);
    tt_case_fini(&whole);
    return status;
}

static tt_status run(tt_law_report *r)
{
    int n = 0;
    const tt_op_def *const *ops = tt_op_all(&n);
    for (int i = 0; i < n; i++) {
        if (!tt_law_report_wants(r, ops[i]->name) || ops[i]->shard == NULL)
            continue;
        for (const tt_sample *s = ops[i]->samples; s && s->in[0]; s++) {
            const tt_status status = check_sample(r, ops[i], s);
            tt_law_report_check(r, status == TT_OK, "shard %s: sample %d: %s",
                                ops[i]->name, (int)(s - ops[i]->samples),
                                tt_error_message());
        }
    }
    return TT_OK;
}

const tt_law_def tt_law_shard = {
    .name = "shard",
    .doc = "An operator on parts, joined, is the operator on the whole.",
    .run = run,
};
