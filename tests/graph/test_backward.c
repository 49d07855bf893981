// The backward pass as a transformation: what it leaves behind, and its edges.

#include "graph/grad.h"
#include "interp/interp.h"
#include "ops/act/activation.h"
#include "ops/arith.h"
#include "ops/gradops.h"
#include "ops/matmul.h"
#include "ops/nn/loss.h"
#include "ops/nn/moe.h"
#include "test.h"

#include <string.h>

static void start(tt_builder *b)
{
    CHECK_OK(tt_builder_init(b, &tt_grad_ops_default));
    b->dtype = b->master = TT_F64;
}

TEST(a_backward_pass_leaves_the_builder_as_it_was)
{
    tt_builder b;
    start(&b);
    b.stage = 1;
    const tt_val w =
        tt_param(&b, "w", (tt_init){.kind = TT_INIT_CONST, .a = 2}, "%s", "");
    const tt_val early = tt_tanh(&b, w);
    b.stage = 2;
    const tt_val loss = tt_mul(&b, early, early);
    b.stage = 3;
    const int32_t forward = b.graph->n_nodes;
    CHECK_OK(tt_grad(&b, loss, NULL, NULL));
    CHECK(b.stage == 3 && b.phase == TT_FORWARD);
    bool seen[4] = {false};
    for (int32_t n = forward; n < b.graph->n_nodes; n++) {
        CHECK(b.graph->node[n].phase != TT_FORWARD);
        seen[b.graph->node[n].stage] = true;
    }
    CHECK(seen[1] && seen[2]); // where their forward nodes are
    tt_builder_fini(&b);
}

TEST(a_loss_that_is_a_weight_has_gradient_one)
{
    tt_builder b;
    tt_interp *it = NULL;
    const double two = 2;
    start(&b);
    const tt_val loss =
        tt_param(&b, "w", (tt_init){.kind = TT_INIT_CONST, .a = 2}, "%s", "");
    CHECK_OK(tt_grad(&b, loss, NULL, NULL));
    const tt_val w = tt_graph_find(b.graph, "w");
    const tt_val grad = b.graph->value[w.id].grad;
    CHECK(tt_is(grad));
    CHECK_OK(tt_interp_create(b.graph, &it));
    tt_interp_write(it, w, &two);
    CHECK_OK(tt_interp_run(it));
    CHECK(*(const double *)tt_interp_data(it, 0, grad) == 1);
    tt_interp_destroy(it);
    tt_builder_fini(&b);
}

// Sums, and names given back, belong to the phase of the value whose gradient
// they are, whatever came before them.
TEST(gradients_of_weights_and_of_activations_have_phases_of_their_own)
{
    tt_builder b;
    int adds[TT_N_PHASES] = {0}, matches[TT_N_PHASES] = {0};
    const tt_init init = {.kind = TT_INIT_CONST, .a = 2};
    const tt_matmul_params plain = {0};
    start(&b);
    const tt_val x = tt_input(&b, "x", TT_F64, "batch:2 in:3");
    const tt_val u = tt_param(&b, "u", init, "in:3");
    const tt_val w = tt_scale(&b, tt_param(&b, "w", init, "out:3"), 3);
    const tt_val h = tt_mul(&b, tt_mul(&b, x, u), w);
    const tt_val y = tt_mul(&b, tt_mul(&b, h, w), tt_tanh(&b, h));
    // Products whose second operand has another name for the first one's columns.
    const tt_val v = tt_param(&b, "v", init, "from:3 to:3");
    const tt_val table =
        tt_scale(&b, tt_param(&b, "t", init, "row:3 col:3"), 2);
    const tt_val z = tt_matmul(&b, y, tt_matmul(&b, table, v, TT_NONE, &plain),
                               TT_NONE, &plain);
    const tt_val loss = tt_reduce_dims(&b, z, TT_REDUCE_SUM, NULL, 0);
    CHECK_OK(tt_grad(&b, loss, NULL, NULL));
    for (int32_t n = 0; n < b.graph->n_nodes; n++) {
        const tt_node *node = &b.graph->node[n];
        adds[node->phase] += node->op == b.ops->add;
        matches[node->phase] += node->op == b.ops->match;
    }
    CHECK_MSG(adds[TT_BACKWARD] == 1 && adds[TT_WEIGHT_GRAD] == 1,
              "%d sums on the chain, %d for weights", adds[TT_BACKWARD],
              adds[TT_WEIGHT_GRAD]);
    CHECK_MSG(matches[TT_BACKWARD] == 1 && matches[TT_WEIGHT_GRAD] == 1,
              "%d names on the chain, %d for weights", matches[TT_BACKWARD],
              matches[TT_WEIGHT_GRAD]);
    tt_builder_fini(&b);
}

static tt_val weighted_mse(tt_builder *b, tt_val weight)
{
    const tt_val x = tt_input(b, "x", TT_F64, "batch:3 embed:2");
    return tt_mse(b, x, x, weight).sum;
}

static tt_val gated_dispatch(tt_builder *b, tt_val gate)
{
    const tt_val x = tt_input(b, "x", TT_F64, "batch:1 seq:3 embed:2");
    const tt_val place = tt_input(b, "p", TT_I32, "batch:1 seq:3 choice:1");
    const tt_dispatch_params params = {.experts = 2, .slots = 2};
    return tt_reduce_dims(b, tt_dispatch(b, x, place, gate, &params),
                          TT_REDUCE_SUM, NULL, 0);
}

static tt_val ids_of(tt_builder *b, tt_val x)
{
    const tt_val labels = tt_input(b, "l", TT_I32, "batch:3");
    return tt_correct(b, x, labels);
}

TEST(gradients_that_do_not_exist_are_refused)
{
    static const struct {
        tt_val (*build)(tt_builder *b, tt_val w);
        const char *shape, *says;
    } cases[] = {
        {weighted_mse, "batch:3", "mse: weights cannot be differentiated"},
        {gated_dispatch, "batch:1 seq:3 choice:1", "its gate has no gradient"},
        {ids_of, "batch:3 class:4", "correct has no gradient"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tt_builder b;
        start(&b);
        const tt_val w =
            tt_param(&b, "w", (tt_init){.kind = TT_INIT_CONST, .a = 1}, "%s",
                     cases[i].shape);
        const tt_val loss = cases[i].build(&b, w);
        CHECK_OK(b.status);
        CHECK(tt_grad(&b, loss, NULL, NULL) == TT_ERR_UNSUPPORTED);
        CHECK_MSG(strstr(tt_error_message(), cases[i].says) != NULL, "%s",
                  tt_error_message());
        tt_builder_fini(&b);
    }
}
