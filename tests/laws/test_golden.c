// What every operator's sharding signatures and costs are, for every sample,
// against reviewed lists in tests/golden/: the laws say that a signature computes
// the right thing, only a list says that none is missing.
//
// After an intended change, look at the difference and copy the new list.

#include "base/str.h"
#include "check/sample.h"
#include "golden.h"
#include "ops/comm/comm.h"
#include "ops/gradops.h"
#include "ops/ops.h"
#include "test.h"

#include <string.h>

static void print_types(const tt_op_io *io, tt_str *out)
{
    for (int i = 0; i < io->n_in; i++) {
        tt_str_add(out, i > 0 ? ", " : "");
        if (tt_io_has(io, i))
            tt_shape_print(&io->in[i].shape, out);
        else
            tt_str_add(out, "-");
    }
}

// The communication in a graph, in order.
static void print_talk(const tt_graph *g, tt_str *out)
{
    for (int32_t n = 0; n < g->n_nodes; n++)
        if ((g->node[n].op->flags & TT_OP_COLLECTIVE) != 0)
            tt_str_addf(out, " %s", g->node[n].op->name);
    tt_str_add(out, "\n");
}

static void print_expand(const tt_case *whole, const tt_sig *sig, tt_str *out)
{
    tt_mesh mesh = {.n_axes = 1};
    memcpy(mesh.axis[0].name, "x", 2);
    mesh.axis[0].size = 2;
    tt_case cut;
    CHECK_OK(tt_case_init(&cut, whole->op, whole->sample, TT_F32, &mesh, sig));
    tt_str_addf(out, " expands to %d nodes with", cut.b.graph->n_nodes);
    print_talk(cut.b.graph, out);
    tt_case_fini(&cut);
}

static void print_sig(const tt_case *c, const tt_op_io *io, const tt_sig *sig,
                      tt_str *out)
{
    const int n_in = io->n_in < TT_SIG_IN ? io->n_in : TT_SIG_IN;
    tt_str_add(out, "   ");
    for (int i = 0; i < n_in; i++) {
        tt_str_add(out, " ");
        tt_place_print(&sig->in[i], &io->in[i].shape, out);
    }
    tt_str_add(out, " ->");
    for (int i = 0; i < io->n_out; i++) {
        tt_str_add(out, " ");
        tt_place_print(&sig->out[i], &io->out[i].shape, out);
    }
    if (sig->sent_bytes != 0)
        tt_str_addf(out, " sends %.10g", sig->sent_bytes);
    if (sig->expand != NULL)
        print_expand(c, sig, out);
    else
        tt_str_add(out, "\n");
}

static void print_sigs(const tt_case *c, const tt_op_io *io, tt_str *out)
{
    const tt_op_def *op = c->op;
    static tt_sigs sigs;
    if (op->shard == NULL) {
        tt_str_add(out, "    replicated only\n");
        return;
    }
    for (int size = 2; size <= 4; size += 2) {
        sigs.n = 0;
        op->shard(io, size, &sigs);
        if (size == 2)
            for (int s = 0; s < sigs.n; s++)
                print_sig(c, io, &sigs.sig[s], out);
        else
            tt_str_addf(out, "    %d on 4 ranks\n", sigs.n);
    }
}

static void print_cost(const tt_case *c, const tt_op_io *io, tt_str *out)
{
    const tt_op_def *op = c->op;
    const bool talks = (op->flags & TT_OP_COLLECTIVE) != 0;
    for (int size = talks ? 2 : 1; size <= (talks ? 3 : 1); size++) {
        tt_cost cost = {0};
        op->cost(io, size, &cost);
        tt_str_addf(out, "    flops %.10g bytes %.10g work %.10g depth %.10g",
                    cost.flops, cost.bytes, cost.work, cost.depth);
        if (talks)
            tt_str_addf(out, " wire %.10g messages %.10g on %d ranks",
                        cost.wire_bytes, cost.messages, size);
        tt_str_add(out, "\n");
    }
}

typedef void print_fn(const tt_case *c, const tt_op_io *io, tt_str *out);

static void print_all(print_fn *print, tt_str *out)
{
    int n = 0;
    const tt_op_def *const *ops = tt_op_all(&n);
    for (int i = 0; i < n; i++)
        for (const tt_sample *s = ops[i]->samples; s->in[0] != NULL; s++) {
            tt_case c;
            tt_op_io io;
            tt_type in[TT_SAMPLE_IN], types[TT_MAX_OUT];
            CHECK_OK(tt_case_init(&c, ops[i], s, TT_F32, NULL, NULL));
            tt_node_io(c.b.graph, &c.b.graph->node[c.b.graph->n_nodes - 1], in,
                       types, &io);
            tt_str_addf(out, "%s%s%s: ", ops[i]->name, s->params[0] ? " " : "",
                        s->params);
            print_types(&io, out);
            tt_str_add(out, "\n");
            print(&c, &io, out);
            tt_case_fini(&c);
        }
    CHECK_OK(tt_str_status(out));
}

TEST(golden_sharding_signatures)
{
    tt_str text = {0};
    print_all(print_sigs, &text);
    golden_compare("signatures", tt_str_text(&text));
    tt_str_fini(&text);
}

TEST(golden_costs)
{
    tt_str text = {0};
    print_all(print_cost, &text);
    golden_compare("costs", tt_str_text(&text));
    tt_str_fini(&text);
}

static void print_conversion(const tt_place *from, const tt_place *to,
                             tt_str *out)
{
    tt_builder b;
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    b.graph->mesh.n_axes = 1;
    b.graph->mesh.axis[0].size = 3;
    memcpy(b.graph->mesh.axis[0].name, "x", 2);
    const tt_val x = tt_input(&b, "x", TT_F32, "a:5 b:7");
    tt_place_set(&b, x, 0, *from);
    const tt_shape shape = tt_type_of(&b, x)->shape;
    tt_place_print(from, &shape, out);
    tt_str_add(out, " to ");
    tt_place_print(to, &shape, out);
    tt_str_add(out, ":");
    const tt_val y = tt_place_convert(&b, x, 0, *to);
    if (tt_is(y))
        print_talk(b.graph, out);
    else
        tt_str_add(out, " none\n");
    tt_builder_fini(&b);
}

TEST(golden_conversions)
{
    static const tt_place place[] = {
        {.kind = TT_REPLICATE},
        {.kind = TT_PARTIAL, .reduce = TT_SUM},
        {.kind = TT_PARTIAL, .reduce = TT_MAX},
        {.kind = TT_SPLIT, .factor = 0},
        {.kind = TT_SPLIT, .factor = 1},
        {.kind = TT_SPLIT, .factor = 1, .rotate = 1},
        {.kind = TT_SPLIT, .factor = 1, .window = {7, 3, 1, 1, 1}},
    };
    enum { N = sizeof place / sizeof place[0] };
    tt_str text = {0};
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            print_conversion(&place[i], &place[j], &text);
    golden_compare("conversions", tt_str_text(&text));
    tt_str_fini(&text);
}
