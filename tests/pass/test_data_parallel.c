// Data parallelism of every model: what is sent, and nothing else.

#include "check/small.h"
#include "ops/ops.h"
#include "pass/partition/partition.h"
#include "pass/pass.h"
#include "test.h"

typedef struct counts {
    int params, norms;      // of the model
    int gradients, scalars; // sums in the update
    int forward, backward;  // sums elsewhere
    int others;             // other communication
} counts;

static counts count(const tt_graph *g)
{
    counts n = {0};
    for (int32_t v = 0; v < g->n_values; v++)
        n.params += g->value[v].role == TT_ROLE_PARAM;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const tt_node *node = &g->node[i];
        n.norms += node->op == &tt_op_batch_norm;
        if ((node->op->flags & TT_OP_COLLECTIVE) == 0)
            continue;
        const bool is_scalar = g->value[node->out[0].id].type.shape.ndim == 0;
        if (node->op != &tt_op_all_reduce)
            n.others++;
        else if (node->phase == TT_UPDATE)
            *(is_scalar ? &n.scalars : &n.gradients) += 1;
        else
            *(node->phase == TT_FORWARD ? &n.forward : &n.backward) += 1;
    }
    return n;
}

// One sum for each gradient, once a step; two small ones for each batch norm; and
// the sums over samples: loss, count, correct.
TEST(ranks_that_share_a_batch_send_gradients_statistics_and_the_loss)
{
    tt_small s;
    for (int i = 0; tt_small_at(i, &s); i++)
        for (int ranks = 2; ranks <= 3; ranks++) {
            tt_graph *g = NULL, *parts = NULL;
            const tt_partition_params params = {
                ranks == 2 ? "data:2" : "data:3", "batch:data"};
            CHECK_OK(tt_small_build(&s, 7, &g));
            CHECK_OK(
                tt_pass_apply(tt_pass_find("partition"), &params, g, &parts));
            const counts one = count(g), n = count(parts);
            CHECK_MSG(n.gradients == one.params && n.scalars == 3 &&
                          n.forward == one.norms && n.backward == one.norms &&
                          n.others == 0,
                      "%s %s: %d gradients of %d, %d scalars, %d and %d sums "
                      "for %d norms, %d others",
                      s.model, s.options, n.gradients, one.params, n.scalars,
                      n.forward, n.backward, one.norms, n.others);
            tt_graph_destroy(parts);
            tt_graph_destroy(g);
        }
}
