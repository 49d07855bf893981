// Sequence parallelism: where one axis splits sequences and weights, activations
// are gathered before products by columns and scattered after those by rows;
// everything between is split along the sequence, and no weight travels.

#include "check/small.h"
#include "ops/ops.h"
#include "pass/partition/partition.h"
#include "pass/pass.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *model, *options, *layer; // of which layer all is counted
    int64_t seq, image;
    int whole_kv; // keys and values that every rank needs, gathered apart
} cases[] = {
    {"gpt", "layers=2 width=8 heads=2 vocab=10 context=6 dropout=0.3", "h.1", 6,
     0},
    {"llama", "layers=2 width=16 heads=4 kv_heads=2 vocab=10 ff=12 context=6",
     "layers.1", 6, 0},
    {"llama", "layers=2 width=16 heads=4 kv_heads=1 vocab=10 ff=12 context=7",
     "layers.1", 7, 0, 2},
    {"vit", "layers=2 width=8 heads=2 ff=12 patch=4 classes=6",
     "encoder_layer_1", 0, 8},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static tt_graph *build(int i, const char *mesh)
{
    const tt_small small = {.model = cases[i].model,
                            .options = cases[i].options,
                            .seq = cases[i].seq,
                            .image = cases[i].image};
    const tt_partition_params params = {
        .mesh = mesh,
        .layout = "heads:tensor kv_heads:tensor ff:tensor vocab:tensor "
                  "seq:tensor batch:data"};
    tt_graph *g = NULL, *parts = NULL;
    CHECK_OK(tt_small_build(&small, 6, &g));
    CHECK_OK(tt_pass_apply(tt_pass_find("partition"), &params, g, &parts));
    tt_graph_destroy(g);
    return parts;
}

// Bytes of a micro-batch that travel; the update's are others' business.
static bool is_sent(const tt_node *node)
{
    return (node->op->flags & TT_OP_COLLECTIVE) != 0 &&
           node->phase != TT_UPDATE && node->op != &tt_op_take &&
           node->op != &tt_op_keep_first;
}

TEST(a_layer_gathers_and_scatters_twice_each_way)
{
    for (int i = 0; i < N_CASES; i++) {
        tt_graph *g = build(i, "tensor:2 data:1");
        int n[2][3] = {{0}}; // forward, backward: gathers, scatters, others
        for (int32_t k = 0; k < g->n_nodes; k++) {
            const tt_node *node = &g->node[k];
            if (!is_sent(node) || strstr(node->origin, cases[i].layer) == NULL)
                continue;
            n[node->phase != TT_FORWARD][node->op == &tt_op_all_gather ? 0
                                         : node->op == &tt_op_reduce_scatter
                                             ? 1
                                             : 2]++;
        }
        for (int p = 0; p < 2; p++)
            CHECK_MSG(n[p][0] == 2 + (p == 0 ? cases[i].whole_kv : 0) &&
                          n[p][1] == 2 + (p == 1 ? cases[i].whole_kv : 0) &&
                          n[p][2] == 0,
                      "%s %s: %d gathers, %d scatters, %d others",
                      cases[i].model, p == 0 ? "forward" : "backward", n[p][0],
                      n[p][1], n[p][2]);
        tt_graph_destroy(g);
    }
}

TEST(weights_and_their_gradients_stay_where_the_layout_puts_them)
{
    for (int i = 0; i < N_CASES; i++) {
        tt_graph *g = build(i, "data:2 tensor:2");
        for (int32_t k = 0; k < g->n_nodes; k++) {
            const tt_node *node = &g->node[k];
            const tt_shape *shape = &g->value[node->out[0].id].type.shape;
            if (is_sent(node))
                CHECK_MSG(tt_shape_find(shape, "batch") >= 0, "%s: %s of %s",
                          cases[i].model, node->op->name, node->origin);
        }
        tt_graph_destroy(g);
    }
}

TEST(norms_dropout_and_residuals_are_split_along_the_sequence)
{
    for (int i = 0; i < N_CASES; i++) {
        tt_graph *g = build(i, "tensor:2 data:1");
        int n = 0;
        for (int32_t k = 0; k < g->n_nodes; k++) {
            const tt_node *node = &g->node[k];
            const tt_type *type = &g->value[node->out[0].id].type;
            const bool is_narrow =
                node->op == &tt_op_layer_norm || node->op == &tt_op_rms_norm ||
                node->op == &tt_op_dropout || node->op == &tt_op_add;
            if (!is_narrow || strstr(node->origin, cases[i].layer) == NULL ||
                type->shape.ndim != 3 || type->place[0].kind == TT_PARTIAL)
                continue;
            n++;
            CHECK_MSG(type->place[0].kind == TT_SPLIT &&
                          strcmp(type->shape.factor[type->place[0].factor].name,
                                 "seq") == 0,
                      "%s: %s of %s is whole", cases[i].model, node->op->name,
                      node->origin);
        }
        CHECK(n >= 6); // two norms, two residuals, two gradients of these
        tt_graph_destroy(g);
    }
}

TEST(tokens_and_labels_are_whole_where_the_vocabulary_is_split)
{
    tt_graph *g = build(1, "data:2 tensor:2");
    const tt_type *x = &g->value[tt_graph_find(g, "x").id].type;
    const tt_type *y = &g->value[tt_graph_find(g, "y").id].type;
    CHECK(x->place[0].kind == TT_SPLIT && y->place[0].kind == TT_SPLIT);
    CHECK(x->place[1].kind == TT_REPLICATE && y->place[1].kind == TT_REPLICATE);
    tt_graph_destroy(g);
}

// Attention to a sequence that is cut: of queries, keys, values and results forward,
// of the gradients of results and of all three backward; or rings.
TEST(heads_are_cut_instead_of_the_sequence_when_that_is_asked_for)
{
    for (int way = TT_WAY_RING; way <= TT_WAY_EXCHANGE; way++)
        for (int i = 0; i < 2; i++) {
            const tt_small small = {.model = cases[i].model,
                                    .options = cases[i].options,
                                    .seq = cases[i].seq};
            const tt_partition_params params = {
                .mesh = "context:2", .layout = "seq:context", .way = way};
            tt_graph *g = NULL, *parts = NULL;
            int shifts = 0, exchanges = 0, others = 0;
            CHECK_OK(tt_small_build(&small, 6, &g));
            CHECK_OK(
                tt_pass_apply(tt_pass_find("partition"), &params, g, &parts));
            for (int32_t k = 0; k < parts->n_nodes; k++) {
                const tt_node *node = &parts->node[k];
                const bool is_shift = node->op == &tt_op_shift;
                const bool is_exchange = node->op == &tt_op_all_to_all;
                if (!is_sent(node) ||
                    strstr(node->origin, cases[i].layer) == NULL)
                    continue;
                shifts += is_shift;
                exchanges += is_exchange;
                others += !is_shift && !is_exchange;
            }
            const bool is_ring = way == TT_WAY_RING;
            CHECK_MSG(others == 0 && (is_ring ? shifts == 8 && exchanges == 0
                                              : shifts == 0 && exchanges >= 6),
                      "%s: %d shifts, %d exchanges, %d others", small.model,
                      shifts, exchanges, others);
            tt_graph_destroy(parts);
            tt_graph_destroy(g);
        }
}

// Fewer key-value heads than ranks: each goes to those that read it, and no rank has
// all of them; what several made of a head's gradient is added where it came from.
TEST(no_rank_has_all_key_value_heads)
{
    static const tt_small small = {
        "llama",
        "layers=1 width=32 heads=8 kv_heads=2 vocab=10 ff=12 context=8", 8};
    const tt_partition_params params = {
        .mesh = "context:4", .layout = "seq:context", .way = TT_WAY_EXCHANGE};
    tt_graph *g = NULL, *parts = NULL;
    int exchanges[2] = {0};
    CHECK_OK(tt_small_build(&small, 2, &g));
    CHECK_OK(tt_pass_apply(tt_pass_find("partition"), &params, g, &parts));
    for (int32_t k = 0; k < parts->n_nodes; k++) {
        const tt_node *node = &parts->node[k];
        for (int i = 0; i < node->n_out; i++) {
            const tt_type *type = &parts->value[node->out[i].id].type;
            const bool is_kv = tt_shape_find(&type->shape, "kv_heads") >= 0 &&
                               tt_shape_find(&type->shape, "seq") >= 0;
            CHECK_MSG(!is_kv || type->place[0].kind == TT_SPLIT,
                      "%s of %s is whole", node->op->name, node->origin);
            // Each head once for every rank that reads it, and no oftener.
            CHECK(!is_kv || type->shape.ndim != 4 ||
                  tt_shape_dim(&type->shape, 2) <= 4);
        }
        CHECK(node->op != &tt_op_all_gather || node->phase == TT_UPDATE);
        exchanges[node->phase != TT_FORWARD] += node->op == &tt_op_all_to_all;
    }
    // Of q, k, v, o; of do, k, v, dq, dk, dv.
    CHECK_MSG(exchanges[0] == 4 && exchanges[1] == 6, "%d and %d", exchanges[0],
              exchanges[1]);
    tt_graph_destroy(parts);
    tt_graph_destroy(g);
}
