// The backward pass as a transformation: what it leaves behind, and its edges.

#include "check/interp.h"
#include "graph/grad.h"
#include "ops/activation.h"
#include "ops/arith.h"
#include "ops/gradops.h"
#include "test.h"

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
