// law_kernel - every kernel of every backend computes what the reference computes.
//
// For each backend, float type and operator, the law runs:
//
//   samples      the operator's own, small and odd
//   stretched    one dimension 19 times as large: blocks, tails, thread splits
//   parts        what the first and last of 2 and 4 ranks hold, per signature (fp32)
//
// Samples and stretched ones are run in three ways: plainly; added to an output twice
// (micro-batches: the result must be twice as large); in exact mode. Two threads are
// compared with one: to the bit in exact mode, to rounding otherwise. Memory is
// poisoned and guarded.
//
// The law also collects the names of all kernels that lowering chose (`hunt`). A
// kernel that no sample reaches is a failure: it would ship untested.

#include "base/alloc.h"
#include "check/law.h"
#include "check/sample.h"
#include "check/stretch.h"
#include "exec/exec.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_KERNELS = 1024 };

// Names of the kernels that have run.
typedef struct hunt {
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
    tt_local local;
    tt_local_of(type, &g->mesh, tt_exec_plan(exec)->rank, &local);
    const int64_t n = tt_shape_count(&local.shape);
    void *raw = tt_alloc(n * tt_dtype_bytes(type->dtype));
    if (raw == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(type->dtype, raw, i,
                       data[tt_local_to_global(&local, i)]);
    const tt_status status = tt_exec_write(exec, v, raw);
    tt_free(raw);
    return status;
}

static tt_status read_output(tt_exec *exec, const tt_graph *g, tt_val v,
                             int64_t *count_out, double **data_out)
{
    const tt_type *type = &g->value[v.id].type;
    tt_local local;
    tt_local_of(type, &g->mesh, tt_exec_plan(exec)->rank, &local);
    const int64_t n = tt_shape_count(&local.shape);
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

// One way to run a sample.
typedef struct setting {
    const char *backend;
    const char *what; // for messages
    int n_threads;
    tt_dtype dtype;
    bool exact;
    bool twice;        // add output 0 over two micro-batches
    const tt_sig *sig; // run one rank's part of `size`; NULL: the whole
    int rank, size;
} setting;

static tt_status build_case(tt_case *c, const tt_op_def *op,
                            const tt_sample *sample, const setting *s,
                            tt_graph **graph_out)
{
    tt_mesh mesh = {.n_axes = 1, .axis = {{"x", s->size}}};
    TT_TRY(
        tt_case_init(c, op, sample, s->dtype, s->sig ? &mesh : NULL, s->sig));
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
    const tt_backend_options options = {.n_threads = s->n_threads,
                                        .exact = s->exact};
    const tt_lower_options lower = {.rank = s->rank,
                                    .n_micro = s->twice ? 2 : 1};
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

// The largest difference relative to the largest entry of the reference. Sums have
// another order in fast kernels, so an entry near zero has no relative error of its
// own.
static double difference(const double *a, const double *b, int64_t n)
{
    double worst = 0, size = 1e-2;
    if (a == NULL || b == NULL)
        return (double)INFINITY; // an output is missing
    for (int64_t i = 0; i < n; i++) {
        if (a[i] == b[i])
            continue;
        const double error = fabs(a[i] - b[i]);
        worst = tt_law_worse(worst, error);
        size = isfinite(b[i]) ? fmax(size, fabs(b[i])) : size;
    }
    return worst / size;
}

static void compare(tt_law_report *r, const char *what, const result *a,
                    const result *b, double tolerance)
{
    for (int i = 0; i < b->n_out; i++) {
        const double error = difference(a->data[i], b->data[i], b->count[i]);
        tt_law_report_check(r, error <= tolerance,
                            "kernel %s: output %d is off by %.3g", what, i,
                            error);
    }
}

// Products in fp8 are added up with fewer bits than fp32 has, so they get the
// tolerance of 16-bit results.
static double tolerance_of(const tt_op_def *op, tt_dtype dtype)
{
    if (op == &tt_op_matmul_fp8)
        return 1.0 / 64;
    return dtype == TT_F64 ? 1e-12 : dtype == TT_F32 ? 1e-5 : 1.0 / 64;
}

// What the reference computes; doubled when output 0 is to be added twice.
static tt_status run_ref(const tt_op_def *op, const tt_sample *sample,
                         setting s, hunt *h, result *out)
{
    const bool twice = s.twice;
    s.backend = "ref";
    s.twice = false;
    TT_TRY(run_sample(op, sample, &s, h, out));
    for (int i = 1; i < out->n_out && twice; i++) {
        tt_free(out->data[i]);
        out->data[i] = NULL;
    }
    for (int64_t k = 0; k < out->count[0] && twice; k++)
        out->data[0][k] *= 2;
    out->n_out = twice ? 1 : out->n_out;
    return TT_OK;
}

static void check_threads(tt_law_report *r, const tt_op_def *op,
                          const tt_sample *sample, setting s, hunt *h,
                          const result *two)
{
    result one;
    s.n_threads = 1;
    if (run_sample(op, sample, &s, h, &one) != TT_OK) {
        tt_law_report_check(r, false, "kernel %s: %s", s.what,
                            tt_error_message());
        return;
    }
    for (int i = 0; i < two->n_out; i++)
        tt_law_report_check(r,
                            difference(one.data[i], two->data[i],
                                       two->count[i]) <= (s.exact ? 0 : 1e-5),
                            "kernel %s: output %d depends on the threads",
                            s.what, i);
    result_fini(&one);
}

static void check_one(tt_law_report *r, const tt_op_def *op,
                      const tt_sample *sample, setting s, hunt *h)
{
    result ref, fast;
    s.n_threads = 2;
    if (run_ref(op, sample, s, h, &ref) != TT_OK) {
        tt_law_report_check(r, false, "kernel %s: ref: %s", s.what,
                            tt_error_message());
        return;
    }
    const tt_status status = run_sample(op, sample, &s, h, &fast);
    tt_law_report_check(r, status == TT_OK, "kernel %s: %s", s.what,
                        tt_error_message());
    if (status == TT_OK) {
        compare(r, s.what, &fast, &ref, tolerance_of(op, s.dtype));
        if (s.sig == NULL)
            check_threads(r, op, sample, s, h, &fast);
    }
    result_fini(&fast);
    result_fini(&ref);
}

// Whether the sample can be built in this type, and is small enough to compare.
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

// Whether the first output can be accumulated into. 8-bit floats cannot, and a sum of
// codes (u8) means nothing.
static bool is_summed(const tt_op_def *op, const tt_sample *sample,
                      tt_dtype dtype)
{
    tt_case c;
    if (tt_case_init(&c, op, sample, dtype, NULL, NULL) != TT_OK)
        return false;
    const tt_dtype out = tt_type_of(&c.b, c.out[0])->dtype;
    tt_case_fini(&c);
    return (op->flags & TT_OP_ACCUMULATE) == 0 && out != TT_E4M3 &&
           out != TT_E5M2 && out != TT_U8;
}

static void check_sample(tt_law_report *r, const tt_op_def *op,
                         const tt_sample *sample, setting s, hunt *h,
                         const char *where)
{
    char what[160];
    for (int way = 0; way < 3; way++) {
        static const char *const name[] = {"", " added twice", " exact"};
        s.twice = way == 1;
        s.exact = way == 2;
        if ((s.twice && !is_summed(op, sample, s.dtype)) ||
            (s.exact && strcmp(s.backend, "ref") == 0))
            continue;
        snprintf(what, sizeof what, "%s.%s: %s %s%s", s.backend, op->name,
                 tt_dtype_name(s.dtype), where, name[way]);
        s.what = what;
        check_one(r, op, sample, s, h);
    }
}

// A signature that runs the operator itself, on the first and the last rank: these
// have the borders and the uneven part.
static void check_sig(tt_law_report *r, const tt_op_def *op,
                      const tt_sample *sample, setting s, hunt *h,
                      const char *which)
{
    char what[160];
    for (s.rank = 0; s.rank < s.size && s.sig->expand == NULL;
         s.rank += s.size - 1) {
        snprintf(what, sizeof what, "%s.%s: sample %d, %s, rank %d of %d",
                 s.backend, op->name, (int)(sample - op->samples), which,
                 s.rank, s.size);
        s.what = what;
        check_one(r, op, sample, s, h);
    }
}

static tt_status check_sigs(tt_law_report *r, const tt_op_def *op,
                            const tt_sample *sample, setting s, hunt *h,
                            const tt_op_io *io)
{
    tt_sigs *sigs = tt_alloc(sizeof *sigs);
    if (sigs == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    op->shard(io, s.size, sigs);
    for (int i = 0; i < sigs->n; i++) {
        char which[32];
        s.sig = &sigs->sig[i];
        snprintf(which, sizeof which, "signature %d", i);
        check_sig(r, op, sample, s, h, which);
        snprintf(which, sizeof which, "signature %d zigzag", i);
        if (tt_sig_splits(io, &sigs->sig[i], "seq") &&
            tt_sig_bend(io, &sigs->sig[i]))
            check_sig(r, op, sample, s, h, which);
    }
    tt_free(sigs);
    return TT_OK;
}

static tt_status check_parts(tt_law_report *r, const tt_op_def *op,
                             const tt_sample *sample, setting s, hunt *h)
{
    tt_case c;
    tt_op_io io;
    tt_type in[TT_SAMPLE_IN], out[TT_MAX_OUT];
    if (op->shard == NULL || s.dtype != TT_F32 ||
        tt_case_init(&c, op, sample, s.dtype, NULL, NULL) != TT_OK)
        return TT_OK;
    tt_node_io(c.b.graph, &c.b.graph->node[c.b.graph->n_nodes - 1], in, out,
               &io);
    tt_status status = TT_OK;
    for (s.size = 2; status == TT_OK && s.size <= 4; s.size += 2)
        status = check_sigs(r, op, sample, s, h, &io);
    tt_case_fini(&c);
    return status;
}

static tt_status check_op(tt_law_report *r, const tt_op_def *op, setting s,
                          hunt *h, tt_arena *arena)
{
    for (const tt_sample *sample = op->samples; sample && sample->in[0];
         sample++) {
        tt_sample big;
        for (int k = 0; tt_stretch(sample, k, arena, &big); k++) {
            char where[32];
            snprintf(where, sizeof where, "sample %d.%d",
                     (int)(sample - op->samples), k);
            if (is_legal(op, &big, s.dtype))
                check_sample(r, op, &big, s, h, where);
        }
        if (strcmp(s.backend, "ref") != 0)
            TT_TRY(check_parts(r, op, sample, s, h));
    }
    return TT_OK;
}

// Operators that strides can express need no kernel.
enum { FREE = TT_OP_VIEW | TT_OP_ALIAS | TT_OP_CONCAT };

// Reorders have no samples of their own: other operators' samples reach them.
static void check_hunt(tt_law_report *r, const tt_backend_def *def,
                       const hunt *h)
{
    for (int f = 0; def->kernels[f] != NULL; f++)
        for (const tt_kernel_def *k = def->kernels[f]; k->name != NULL; k++) {
            bool found = (k->op->flags & FREE) != 0;
            if (!tt_law_report_wants(r, k->op->name) ||
                (r->only != NULL && k->op == &tt_op_reorder))
                continue;
            for (int i = 0; i < h->n; i++)
                found |= strcmp(h->name[i], k->name) == 0;
            tt_law_report_check(r, found,
                                "kernel %s: no sample reaches it; add one to "
                                "the samples of %s that its `can` takes",
                                k->name, k->op->name);
        }
}

static bool has_reference(const tt_op_def *op)
{
    const tt_backend_def *ref = tt_backend_find("ref");
    for (int f = 0; ref->kernels[f] != NULL; f++)
        for (const tt_kernel_def *k = ref->kernels[f]; k->name != NULL; k++)
            if (k->op == op)
                return true;
    return op->kernel != NULL || (op->flags & (FREE | TT_OP_COLLECTIVE)) != 0;
}

// An operator without a reference kernel is one failure, not one for each sample.
static void check_references(tt_law_report *r)
{
    int n = 0;
    const tt_op_def *const *ops = tt_op_all(&n);
    for (int i = 0; i < n; i++)
        if (tt_law_report_wants(r, ops[i]->name))
            tt_law_report_check(r, has_reference(ops[i]),
                                "kernel %s: the operator has no reference "
                                "kernel; add one to an array of kernels in "
                                "src/backend/ref",
                                ops[i]->name);
}

static tt_status check_backend(tt_law_report *r, const tt_backend_def *def)
{
    static const tt_dtype dtypes[] = {TT_F32, TT_BF16, TT_F16, TT_F64};
    hunt h = {0};
    int n = 0;
    const tt_op_def *const *ops = tt_op_all(&n);
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    if (r->only == NULL)
        tt_law_report_check(r, def->has_dtype(TT_F32), "kernel %s: no f32",
                            def->name);
    tt_status status = TT_OK;
    for (int d = 0; d < 4; d++)
        for (int i = 0; i < n && status == TT_OK; i++) {
            const setting s = {.backend = def->name, .dtype = dtypes[d]};
            if (def->has_dtype(dtypes[d]) &&
                tt_law_report_wants(r, ops[i]->name) &&
                (ops[i]->flags & TT_OP_COLLECTIVE) == 0 &&
                has_reference(ops[i]))
                status = check_op(r, ops[i], s, &h, arena);
        }
    check_hunt(r, def, &h);
    tt_arena_destroy(arena);
    return status;
}

static tt_status run(tt_law_report *r)
{
    int n = 0;
    const tt_backend_def *const *all = tt_backend_all(&n);
    if (!tt_law_report_has_device(r))
        return TT_OK;
    check_references(r);
    for (int i = 0; i < n; i++) {
        const bool is_wanted =
            r->device == NULL || strcmp(r->device, all[i]->name) == 0;
        if (is_wanted && (all[i]->is_here == NULL || all[i]->is_here()))
            TT_TRY(check_backend(r, all[i]));
    }
    return TT_OK;
}

const tt_law_def tt_law_kernel = {
    .name = "kernel",
    .doc = "Every kernel computes what the reference computes.",
    .run = run,
};
