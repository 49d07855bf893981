// The pass of 8 bits: which products it takes, and that others stay as they are.

#include "graph/grad.h"
#include "ops/codec/fp8.h"
#include "ops/gradops.h"
#include "ops/matmul.h"
#include "ops/nn/loss.h"
#include "ops/ops.h"
#include "pass/pass.h"
#include "test.h"

typedef struct net {
    const char *x, *first, *second, *table; // shapes
    bool is_transposed, is_tied, has_gelu;
    bool is_watched; // somebody reads the second weight, and what it multiplies
} net;

static tt_val product(tt_builder *b, tt_val x, tt_val w, bool is_transposed,
                      bool has_gelu)
{
    return tt_matmul(b, x, w, TT_NONE,
                     &(tt_matmul_params){.transpose_b = is_transposed,
                                         .activation = has_gelu
                                                           ? TT_ACT_GELU_TANH
                                                           : TT_ACT_NONE});
}

// x -> first -> second -> table -> cross-entropy, with gradients and an update.
static tt_graph *build(const net *n)
{
    tt_builder b;
    const tt_init init = {.kind = TT_INIT_NORMAL, .a = 0.1, .of = TT_NONE};
    CHECK_OK(tt_builder_init(&b, &tt_grad_ops_default));
    b.dtype = TT_BF16;
    const tt_val x = tt_input(&b, "x", TT_BF16, n->x);
    const tt_val y = tt_input(&b, "y", TT_I32, "batch:4 seq:8");
    const tt_val w1 = tt_param(&b, "first", init, "%s", n->first);
    const tt_val w2 = tt_param(&b, "second", init, "%s", n->second);
    const tt_val table = tt_param(&b, "table", init, "%s", n->table);
    tt_val h = product(&b, x, w1, n->is_transposed, n->has_gelu);
    if (n->is_watched) {
        tt_output(&b, "weights",
                  tt_call(&b, &tt_op_reduce, NULL, &w2, 1, NULL));
        tt_output(&b, "middle", tt_call(&b, &tt_op_reduce, NULL, &h, 1, NULL));
    }
    h = product(&b, h, w2, n->is_transposed, false);
    if (n->is_tied) // somebody else reads the second weight
        h = tt_call(
            &b, &tt_op_add, NULL,
            (tt_val[]){h, tt_call(&b, &tt_op_reduce, NULL, &w2, 1, NULL)}, 2,
            NULL);
    const tt_val logits = product(&b, h, table, true, false);
    const tt_val loss =
        tt_call(&b, &tt_op_cross_entropy, NULL, (tt_val[]){logits, y}, 2, NULL);
    CHECK_OK(b.status);
    CHECK_OK(tt_grad(&b, loss, NULL, NULL));
    tt_graph *g = NULL;
    CHECK_OK(tt_builder_take(&b, &g));
    tt_builder_fini(&b);
    return g;
}

static int count(const tt_graph *g, const tt_op_def *op)
{
    int n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        n += g->node[i].op == op;
    return n;
}

static tt_graph *apply(const net *n, tt_status status)
{
    tt_graph *in = build(n), *out = NULL;
    CHECK(tt_pass_apply(tt_pass_find("fp8"), NULL, in, &out) == status);
    tt_graph_destroy(in);
    return out;
}

static const net plain = {"batch:4 seq:8 in:16",
                          "in:16 mid:32",
                          "mid:32 out:16",
                          "vocab:48 out:16",
                          false,
                          false,
                          false};

static void check_units(const tt_graph *g)
{
    bool seen[64] = {false};
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const tt_node *node = &g->node[i];
        if (node->op != &tt_op_fp8_pack)
            continue;
        const tt_fp8_pack_params *p = node->params;
        const bool is_late = node->phase == TT_BACKWARD;
        CHECK(p->site < 64 && p->site % 4 == 0 && !seen[p->site]);
        CHECK((p->to == 1) == is_late);
        seen[p->site] = true;
    }
    // Operands have the units that they were quantized with.
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const tt_node *node = &g->node[i];
        const tt_matmul_fp8_params *p = node->params;
        if (node->op != &tt_op_matmul_fp8)
            continue;
        for (int k = 0; k < 2; k++) {
            const tt_node *from = &g->node[g->value[node->in[k].id].node];
            const tt_fp8_pack_params *q = from->params;
            CHECK(from->op == &tt_op_fp8_pack);
            CHECK(q->site == (k == 0 ? p->a_site : p->b_site));
        }
    }
}

TEST(products_of_8_bits_replace_those_of_layers)
{
    for (int t = 0; t < 2; t++) {
        net n = plain;
        n.is_transposed = t == 1;
        n.first = t == 1 ? "mid:32 in:16" : plain.first;
        n.second = t == 1 ? "out:16 mid:32" : plain.second;
        tt_graph *g = apply(&n, TT_OK);
        // Forward 2, of inputs 1 (x needs none), of weights 2.
        CHECK(count(g, &tt_op_matmul_fp8) == 5);
        CHECK(count(g, &tt_op_fp8_pack) == 2 + 2 + 2);
        CHECK(count(g, &tt_op_matmul) == 2);
        CHECK(count(g, &tt_op_matmul_grad_w) == 1);
        CHECK(count(g, &tt_op_fp8_units) == 1 && count(g, &tt_op_largest) == 1);
        check_units(g);
        tt_graph_destroy(g);
    }
}

TEST(gelus_in_front_of_products_of_8_bits_are_part_of_quantising)
{
    net n = plain;
    n.has_gelu = true;
    tt_graph *g = apply(&n, TT_OK);
    int n_gelu = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (g->node[i].op == &tt_op_fp8_pack)
            n_gelu += ((const tt_fp8_pack_params *)g->node[i].params)->is_gelu;
    CHECK(n_gelu == 1);
    CHECK(count(g, &tt_op_gelu) == 0 && count(g, &tt_op_gelu_grad) == 1);
    check_units(g);
    tt_graph_destroy(g);
}

TEST(odd_layers_stay_as_they_are)
{
    net n = plain;
    n.x = "batch:4 seq:8 in:24";
    n.first = "in:24 mid:32";
    tt_graph *g = apply(&n, TT_OK);
    CHECK(count(g, &tt_op_matmul_fp8) == 3 && count(g, &tt_op_matmul) == 3);
    CHECK(count(g, &tt_op_fp8_pack) == 3);
    check_units(g);
    tt_graph_destroy(g);
    n.second = "mid:32 out:24";
    n.table = "vocab:48 out:24";
    (void)apply(&n, TT_ERR_ARG);
}

TEST(weights_that_others_read_stay_as_they_are)
{
    net n = plain;
    n.second = "mid:32 out:16";
    n.is_tied = true;
    tt_graph *g = apply(&n, TT_OK);
    CHECK(count(g, &tt_op_matmul_fp8) == 2);
    CHECK(count(g, &tt_op_matmul) == 4);
    tt_graph_destroy(g);
}

TEST(what_others_read_stays_as_it_is)
{
    net n = plain;
    n.has_gelu = true;
    n.is_watched = true;
    tt_graph *g = apply(&n, TT_OK);
    CHECK(count(g, &tt_op_matmul_fp8) == 2); // of the first weight
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (g->node[i].op == &tt_op_fp8_pack)
            CHECK(!((const tt_fp8_pack_params *)g->node[i].params)->is_gelu);
    tt_graph_destroy(g);
}

TEST(units_are_updated_with_the_weights_and_gradients_stay_theirs)
{
    net n = plain;
    n.first = "in:16 h:2.c:16";
    n.second = "h:2.c:16 out:16";
    tt_graph *g = apply(&n, TT_OK);
    int n_grads = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (g->node[i].op == &tt_op_fp8_units)
            CHECK(g->node[i].phase == TT_UPDATE && g->node[i].stage == 0);
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_value *value = &g->value[v];
        if (!tt_is(value->grad))
            continue;
        const tt_value *grad = &g->value[value->grad.id];
        CHECK(tt_shape_equal(&grad->type.shape, &value->type.shape));
        CHECK(grad->node >= 0 && value->grad.id != v);
        n_grads++;
    }
    CHECK(n_grads == 3);
    tt_graph_destroy(g);
}
