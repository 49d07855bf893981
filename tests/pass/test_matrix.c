// 2-d tensor parallelism: every matrix is split both ways over two axes, is read where
// it lies, and ranks hold the product's share of weights, gradients and state.

#include "base/alloc.h"
#include "check/small.h"
#include "ops/ops.h"
#include "pass/partition/partition.h"
#include "pass/pass.h"
#include "test.h"

#include <string.h>

static tt_graph *build(const char *mesh)
{
    const tt_small small = {.model = "gpt",
                            .options =
                                "layers=2 width=16 heads=4 vocab=20 context=6",
                            .seq = 6};
    const tt_partition_params params = {
        .mesh = mesh,
        .layout = "batch:data heads:out ff:out vocab:out embed:in"};
    tt_graph *g = NULL, *parts = NULL;
    CHECK_OK(tt_small_build(&small, 4, &g));
    CHECK_OK(tt_pass_apply(tt_pass_find("partition"), &params, g, &parts));
    tt_graph_destroy(g);
    return parts;
}

static int64_t count(const tt_graph *g, int32_t v, int rank)
{
    tt_local local;
    tt_local_of(&g->value[v].type, &g->mesh, rank, &local);
    return tt_shape_count(&local.shape);
}

static bool is_matrix(const tt_value *value)
{
    return value->role == TT_ROLE_PARAM && value->type.shape.ndim == 2 &&
           strstr(value->name, "wpe") == NULL; // positions are on no axis
}

TEST(matrices_are_split_along_both_dimensions)
{
    static const char *const meshes[] = {"in:2 out:2", "out:4 in:2",
                                         "data:2 in:2 out:2"};
    for (int m = 0; m < 3; m++) {
        tt_graph *g = build(meshes[m]);
        const int ranks = tt_mesh_ranks(&g->mesh);
        const int parts = m == 1 ? 8 : 4;
        int n = 0;
        for (int32_t v = 0; v < g->n_values; v++) {
            if (!is_matrix(&g->value[v]))
                continue;
            const int64_t whole = tt_shape_count(&g->value[v].type.shape);
            for (int r = 0; r < ranks; r++) {
                CHECK(count(g, v, r) * parts == whole);
                CHECK(count(g, g->value[v].grad.id, r) * parts == whole);
            }
            n++;
        }
        CHECK(n == 9); // four a layer, and the embedding
        tt_graph_destroy(g);
    }
}

TEST(split_matrices_do_not_travel)
{
    tt_graph *g = build("in:2 out:2");
    for (int32_t k = 0; k < g->n_nodes; k++) {
        const tt_node *node = &g->node[k];
        if ((node->op->flags & TT_OP_COLLECTIVE) == 0 ||
            node->op == &tt_op_keep_first || node->op == &tt_op_take)
            continue; // of these nothing is sent
        const tt_value *x = &g->value[node->in[0].id];
        CHECK_MSG(x->node >= 0 && g->node[x->node].op != &tt_op_fetch &&
                      g->node[x->node].op != &tt_op_offer,
                  "%s of %s", node->op->name, x->name);
    }
    tt_graph_destroy(g);
}
