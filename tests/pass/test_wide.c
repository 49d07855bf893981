// Wide terms: what ranks add in a forward pass of 16 bits is not rounded before, and
// the sum is of 16 bits again; backward and wider precisions are as without.

#include "base/str.h"
#include "check/small.h"
#include "ops/ops.h"
#include "ops/optim/optim.h"
#include "pass/partition/partition.h"
#include "pass/pass.h"
#include "test.h"

#include <string.h>

static const struct {
    tt_small small;
    const char *mesh, *layout;
    int sums; // in the forward pass, of terms of 16 bits
    int way;
} cases[] = {
    {{"gpt", "layers=1 width=8 heads=2 vocab=10 context=6", 6},
     "data:2 tensor:2",
     "batch:data heads:tensor ff:tensor",
     2},
    {{"gpt", "layers=1 width=8 heads=2 vocab=10 context=6 experts=2 choices=1",
      6},
     "tensor:2",
     "heads:tensor ff:tensor",
     2},
    {{"gpt", "layers=1 width=8 heads=2 vocab=10 context=6", 6},
     "tensor:2",
     "heads:tensor ff:tensor seq:tensor",
     2},
    {{"gpt", "layers=1 width=8 heads=2 vocab=10 context=6", 6},
     "space:2 tensor:2",
     "heads:tensor ff:tensor embed:space",
     7},
    {{"mlp", "layers=2 width=6 classes=4 channels=1", 0, 4},
     "tensor:2",
     "layers.0/ff:tensor layers.2/in:tensor",
     1},
    {{"lenet", "", 0, 28}, "space:2", "channels:space", 1},
    {{"llama", "layers=1 width=32 heads=8 kv_heads=2 vocab=10 ff=12 context=8",
      8},
     "context:4",
     "seq:context",
     0,
     TT_WAY_EXCHANGE},
    {{"gpt", "layers=1 width=8 heads=2 vocab=10 context=6", 6},
     "context:3",
     "seq:context",
     0},
};
enum { N_CASES = sizeof cases / sizeof cases[0] };

static tt_graph *build(int i, tt_dtype dtype, bool wide)
{
    tt_arena *arena = tt_arena_create();
    tt_train_recipe recipe = {.optim = {.def = tt_optim_find("sgd")},
                              .dtype = dtype,
                              .master = TT_F32};
    const tt_partition_params params = {.mesh = cases[i].mesh,
                                        .layout = cases[i].layout,
                                        .way = cases[i].way,
                                        .wide = wide};
    tt_graph *g = NULL, *parts = NULL;
    CHECK_OK(tt_opt_defaults(recipe.optim.def->op->options,
                             &recipe.optim.params, arena));
    recipe.optim.params.low = TT_LOW_NONE;
    CHECK_OK(tt_small_build_as(&cases[i].small, &recipe, 4, &g));
    CHECK_OK(tt_pass_apply(tt_pass_find("partition"), &params, g, &parts));
    tt_graph_destroy(g);
    tt_arena_destroy(arena);
    return parts;
}

// Sums over ranks of terms of this type that belong to samples.
static int count_sums(const tt_graph *g, bool forward, tt_dtype dtype)
{
    int n = 0;
    for (int32_t k = 0; k < g->n_nodes; k++) {
        const tt_node *node = &g->node[k];
        const tt_type *terms = &g->value[node->in[0].id].type;
        n += (node->op == &tt_op_all_reduce ||
              node->op == &tt_op_reduce_scatter) &&
             (node->phase == TT_FORWARD) == forward && terms->dtype == dtype &&
             tt_shape_find(&terms->shape, "batch") >= 0;
    }
    return n;
}

static bool is_low(const tt_graph *g, tt_val v)
{
    return g->value[v.id].type.dtype == TT_BF16;
}

TEST(terms_of_the_forward_pass_are_rounded_when_they_are_added)
{
    for (int i = 0; i < N_CASES; i++) {
        tt_graph *narrow = build(i, TT_BF16, false);
        tt_graph *wide = build(i, TT_BF16, true);
        const int sums = count_sums(narrow, true, TT_BF16);
        const int more =
            count_sums(wide, true, TT_F32) - count_sums(narrow, true, TT_F32);
        CHECK_MSG(sums == cases[i].sums, "case %d: %d sums", i, sums);
        // At most as many: terms that are read by several are added once.
        CHECK_MSG(count_sums(wide, true, TT_BF16) == 0 && more <= sums &&
                      (more > 0) == (sums > 0),
                  "case %d: %d of bf16, %d of f32", i,
                  count_sums(wide, true, TT_BF16), more);
        CHECK(count_sums(wide, false, TT_BF16) ==
              count_sums(narrow, false, TT_BF16));
        tt_graph_destroy(wide);
        tt_graph_destroy(narrow);
    }
}

// What reads a sum reads 16 bits, as in the graph of one rank.
TEST(products_read_what_they_read_without)
{
    for (int i = 0; i < N_CASES; i++) {
        tt_graph *g = build(i, TT_BF16, true);
        for (int32_t k = 0; k < g->n_nodes; k++)
            if (g->node[k].op == &tt_op_matmul ||
                g->node[k].op == &tt_op_conv || g->node[k].op == &tt_op_relu ||
                g->node[k].op == &tt_op_gelu)
                CHECK(is_low(g, g->node[k].in[0]));
        tt_graph_destroy(g);
    }
}

TEST(a_rounded_sum_lies_where_the_sum_lies)
{
    for (int i = 0; i < N_CASES; i++) {
        tt_graph *g = build(i, TT_BF16, true);
        int n = 0;
        for (int32_t k = 0; k < g->n_nodes; k++) {
            const tt_node *node = &g->node[k];
            if (node->op != &tt_op_cast || node->phase != TT_FORWARD)
                continue;
            const tt_type *x = &g->value[node->in[0].id].type;
            const tt_type *y = &g->value[node->out[0].id].type;
            for (int a = 0; a < g->mesh.n_axes; a++)
                CHECK_MSG(tt_place_equal(&x->place[a], &y->place[a]),
                          "case %d: %s", i, node->origin);
            n += x->dtype == TT_F32 && y->dtype == TT_BF16;
        }
        CHECK(n > 0 || cases[i].sums == 0);
        tt_graph_destroy(g);
    }
}

static tt_str text_of(tt_graph *g)
{
    tt_str text = {0};
    tt_graph_print(g, &text);
    tt_graph_destroy(g);
    return text;
}

TEST(wider_precisions_have_no_wide_terms)
{
    for (int i = 0; i < N_CASES; i++) {
        tt_str a = text_of(build(i, TT_F32, false));
        tt_str b = text_of(build(i, TT_F32, true));
        CHECK(strcmp(tt_str_text(&a), tt_str_text(&b)) == 0);
        tt_str_fini(&a);
        tt_str_fini(&b);
    }
}

// A ring adds up blocks of one rank, which nobody has to send.
TEST(blocks_of_a_ring_are_wide)
{
    for (int wide = 0; wide < 2; wide++) {
        tt_graph *g = build(N_CASES - 1, TT_BF16, wide == 1);
        int n = 0;
        for (int32_t k = 0; k < g->n_nodes; k++)
            if (g->node[k].op == &tt_op_attention) {
                n++;
                CHECK(is_low(g, g->node[k].in[0]));
                CHECK(is_low(g, g->node[k].out[0]) == (wide == 0));
            }
        CHECK(n == 3);
        tt_graph_destroy(g);
    }
}

TEST(results_of_all_to_all_attention_are_no_terms)
{
    tt_graph *g = build(N_CASES - 2, TT_BF16, true);
    int n = 0;
    for (int32_t k = 0; k < g->n_nodes; k++)
        if (g->node[k].op == &tt_op_attention) {
            n++;
            CHECK(is_low(g, g->node[k].out[0]));
        }
    CHECK(n == 1);
    tt_graph_destroy(g);
}
