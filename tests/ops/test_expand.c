// Expands on meshes of two axes: what is emitted for one axis leaves the other
// axis' placements alone. And rings longer than the laws' two and three ranks.

#include "check/sample.h"
#include "interp/interp.h"
#include "ops/gradops.h"
#include "ops/ops.h"
#include "test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { OTHER, AXIS }; // the expand is for the second axis

typedef struct trial {
    tt_case whole;
    tt_interp *one;
    tt_sigs other, sigs;
    tt_dtype dtype;
    double tolerance;
    int n_checked;
} trial;

static tt_mesh grid(int first, int second)
{
    tt_mesh mesh = {.n_axes = 2};
    memcpy(mesh.axis[OTHER].name, "x", 2);
    memcpy(mesh.axis[AXIS].name, "y", 2);
    mesh.axis[OTHER].size = first;
    mesh.axis[AXIS].size = second;
    return mesh;
}

static void start(trial *t, const tt_op_def *op, const tt_sample *sample)
{
    tt_case *c = &t->whole;
    CHECK_OK(tt_case_init(c, op, sample, t->dtype, NULL, NULL));
    CHECK_OK(tt_interp_create(c->b.graph, &t->one));
    for (int i = 0; i < c->n_in; i++)
        if (c->data[i] != NULL)
            tt_interp_write(t->one, c->in[i], c->data[i]);
    CHECK_OK(tt_interp_run(t->one));
}

static void shard(trial *t, int size, tt_sigs *sigs)
{
    tt_type in[TT_SAMPLE_IN], out[TT_MAX_OUT];
    tt_op_io io;
    const tt_graph *g = t->whole.b.graph;
    tt_node_io(g, &g->node[g->n_nodes - 1], in, out, &io);
    sigs->n = 0;
    t->whole.op->shard(&io, size, sigs);
}

// Whether one operand would be split twice along one factor.
static bool clash(const tt_case *c, const tt_sig *a, const tt_sig *b)
{
    for (int i = 0; i < c->n_in; i++)
        if (a->in[i].kind == TT_SPLIT && b->in[i].kind == TT_SPLIT &&
            a->in[i].factor == b->in[i].factor)
            return true;
    return false;
}

static tt_val copy_input(trial *t, tt_builder *b, int i, const tt_sig *other,
                         const tt_sig *sig)
{
    const tt_case *c = &t->whole;
    if (!tt_is(c->in[i]))
        return TT_NONE;
    const tt_val v = tt_leaf_copy(b, c->b.graph, c->in[i]);
    if (other != NULL)
        tt_place_set(b, v, OTHER, other->in[i]);
    tt_place_set(b, v, AXIS, sig->in[i]);
    return v;
}

enum { ROOM = 4096 };

static void compare(trial *t, tt_interp *many, const tt_val *out,
                    const char *what)
{
    const tt_case *c = &t->whole;
    for (int i = 0; i < c->n_out; i++) {
        double a[ROOM], b[ROOM], worst = 0;
        const int64_t n = tt_shape_count(&tt_type_of(&c->b, c->out[i])->shape);
        CHECK(n <= ROOM);
        (void)tt_interp_read(t->one, c->out[i], b);
        (void)tt_interp_read(many, out[i], a);
        for (int64_t k = 0; k < n; k++)
            if (!(a[k] == b[k]))
                worst = fmax(worst, fabs(a[k] - b[k]) / fmax(1, fabs(b[k])));
        CHECK_MSG(worst <= t->tolerance, "%s: output %d is off by %g", what, i,
                  worst);
    }
}

static void check(trial *t, const tt_mesh *mesh, const tt_sig *other,
                  const tt_sig *sig)
{
    const tt_case *c = &t->whole;
    tt_builder b;
    tt_interp *many = NULL;
    tt_val in[TT_SAMPLE_IN], out[TT_MAX_OUT];
    char what[128];
    snprintf(what, sizeof what, "%s, sample %d, %d x %d", c->op->name,
             (int)(c->sample - c->op->samples), mesh->axis[OTHER].size,
             mesh->axis[AXIS].size);
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    b.graph->mesh = *mesh;
    b.origin = "test";
    for (int i = 0; i < c->n_in; i++)
        in[i] = copy_input(t, &b, i, other, sig);
    const tt_node node = {.op = c->op,
                          .params = c->params,
                          .origin = "test",
                          .n_in = c->n_in,
                          .in = in};
    for (int i = 0; i < TT_MAX_OUT; i++)
        out[i] = TT_NONE;
    CHECK_OK(sig->expand(&b, &node, sig, AXIS, in, out));
    for (int i = 0; i < c->n_out; i++) {
        const tt_type *type = tt_type_of(&b, out[i]);
        CHECK_MSG(tt_place_equal(&type->place[AXIS], &sig->out[i]), "%s", what);
        CHECK_MSG(other == NULL ||
                      tt_place_equal(&type->place[OTHER], &other->out[i]),
                  "%s: output %d is placed wrongly on the other axis", what, i);
    }
    CHECK_OK(tt_graph_verify(b.graph));
    CHECK_OK(tt_interp_create(b.graph, &many));
    for (int i = 0; i < c->n_in; i++)
        if (c->data[i] != NULL)
            tt_interp_write(many, in[i], c->data[i]);
    CHECK_OK(tt_interp_run(many));
    compare(t, many, out, what);
    tt_interp_destroy(many);
    tt_builder_fini(&b);
    t->n_checked++;
}

// Every expand of the sample with every plain signature on the other axis.
static void check_grid(trial *t, int size)
{
    const tt_mesh mesh = grid(2, size);
    shard(t, 2, &t->other);
    shard(t, size, &t->sigs);
    for (int s = 0; s < t->sigs.n; s++)
        for (int o = 0; o < t->other.n && t->sigs.sig[s].expand; o++)
            if (t->other.sig[o].expand == NULL &&
                !clash(&t->whole, &t->other.sig[o], &t->sigs.sig[s]))
                check(t, &mesh, &t->other.sig[o], &t->sigs.sig[s]);
}

static void check_line(trial *t, int size)
{
    const tt_mesh mesh = grid(1, size);
    shard(t, size, &t->sigs);
    for (int s = 0; s < t->sigs.n; s++)
        if (t->sigs.sig[s].expand != NULL)
            check(t, &mesh, NULL, &t->sigs.sig[s]);
}

static int each_sample(const tt_op_def *op, void (*run)(trial *, int), int size,
                       tt_dtype dtype)
{
    int n = 0;
    for (const tt_sample *s = op->samples; s && s->in[0]; s++) {
        static trial t; // large
        t = (trial){.dtype = dtype,
                    .tolerance = dtype == TT_F64 ? 1e-12 : 0.02};
        start(&t, op, s);
        run(&t, size);
        n += t.n_checked;
        tt_interp_destroy(t.one);
        tt_case_fini(&t.whole);
    }
    return n;
}

TEST(expands_leave_the_other_axis_alone)
{
    int n = 0, n_ops = 0;
    const tt_op_def *const *ops = tt_op_all(&n_ops);
    for (int i = 0; i < n_ops; i++)
        if (ops[i]->shard != NULL)
            n += each_sample(ops[i], check_grid, 2, TT_F64) +
                 each_sample(ops[i], check_grid, 3, TT_F64);
    CHECK(n > 20);
}

TEST(expands_hold_on_one_rank_and_on_five)
{
    int n = 0, n_ops = 0;
    const tt_op_def *const *ops = tt_op_all(&n_ops);
    for (int i = 0; i < n_ops; i++)
        for (int size = 1; size <= 5; size += 2)
            if (ops[i]->shard != NULL)
                n += each_sample(ops[i], check_line, size, TT_F64);
    CHECK(n > 20);
}

TEST(expands_hold_in_bf16)
{
    int n = 0, n_ops = 0;
    const tt_op_def *const *ops = tt_op_all(&n_ops);
    for (int i = 0; i < n_ops; i++)
        if (ops[i]->shard != NULL)
            n += each_sample(ops[i], check_line, 3, TT_BF16);
    CHECK(n > 10);
}

TEST(ring_attention_never_holds_all_keys)
{
    static trial t;
    t = (trial){.dtype = TT_F64};
    start(&t, &tt_op_attention, tt_op_attention.samples);
    shard(&t, 5, &t.sigs);
    const tt_sig *ring = NULL;
    for (int s = 0; s < t.sigs.n; s++)
        if (t.sigs.sig[s].expand != NULL)
            ring = &t.sigs.sig[s];
    CHECK(ring != NULL);
    tt_builder b;
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    b.graph->mesh = grid(1, 5);
    b.origin = "test";
    tt_val in[3], out[TT_MAX_OUT];
    for (int i = 0; i < 3; i++)
        in[i] = copy_input(&t, &b, i, NULL, ring);
    const tt_node node = {.op = t.whole.op,
                          .params = t.whole.params,
                          .origin = "test",
                          .n_in = 3,
                          .in = in};
    CHECK_OK(ring->expand(&b, &node, ring, AXIS, in, out));
    for (int32_t v = 0; v < b.graph->n_values; v++)
        CHECK(b.graph->value[v].type.place[AXIS].kind == TT_SPLIT);
    tt_builder_fini(&b);
    tt_interp_destroy(t.one);
    tt_case_fini(&t.whole);
}
