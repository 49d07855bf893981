// The partition pass on graphs of a few lines: which rule is heard, what is cut, and
// what is left whole.

#include "ops/ops.h"
#include "pass/partition/partition.h"
#include "pass/rewrite.h"
#include "test.h"

#include <string.h>

static tt_graph *cut(const tt_partition_params *params, const char *text)
{
    tt_graph *g = rewrite("partition", params, text);
    CHECK_MSG(g != NULL, "%s", tt_error_message());
    return g;
}

static void check_place(const tt_graph *g, tt_val v, const char *want)
{
    const tt_type *type = &g->value[v.id].type;
    tt_str place = {0};
    CHECK(tt_is(v));
    tt_place_print(&type->place[0], &type->shape, &place);
    CHECK_MSG(strcmp(tt_str_text(&place), want) == 0, "%s, not %s",
              tt_str_text(&place), want);
    tt_str_fini(&place);
}

TEST(sequences_go_zigzag_along_their_axis_and_nothing_else)
{
    static const char text[] = "tutti-graph 1\n"
                               "%0 = input 'x' f32 [seq:8 embed:4]\n"
                               "%1 = param 'w' f32 [embed:4 ff:8] const 1\n"
                               "%2 = relu(%0) forward 0 'y' f32 [seq:8 "
                               "embed:4]\n"
                               "%3 = relu(%1) forward 0 'v' f32 [embed:4 "
                               "ff:8]\n"
                               "output 'y' %2\noutput 'v' %3\n";
    const struct {
        const char *layout, *zigzag, *x, *w;
    } cases[] = {{"seq:context", "context", "S(seq~)", "R"},
                 {"seq:context", "data", "S(seq)", "R"},
                 {"seq:context", NULL, "S(seq)", "R"},
                 {"ff:context", "context", "R", "S(ff)"}};
    for (int i = 0; i < 4; i++) {
        const tt_partition_params params = {.mesh = "context:2",
                                            .layout = cases[i].layout,
                                            .zigzag = cases[i].zigzag};
        tt_graph *g = cut(&params, text);
        check_place(g, tt_graph_find(g, "x"), cases[i].x);
        check_place(g, tt_graph_output_find(g, "y"), cases[i].x);
        check_place(g, tt_graph_find(g, "w"), cases[i].w);
        check_place(g, tt_graph_output_find(g, "v"), cases[i].w);
        tt_graph_destroy(g);
    }
}

// Rules of some layers are those of the weight, wherever a node reads it: here as the
// last operand, in a node that is named otherwise.
TEST(a_node_hears_the_rules_of_its_weight)
{
    static const char text[] =
        "tutti-graph 1\n"
        "%0 = input 'x' f32 [batch:4 embed:8]\n"
        "%1 = param 'fc' f32 [embed:8 ff:8] const 1\n"
        "%2 = fetch(%1) forward 0 'other' f32 [embed:8 ff:8]\n"
        "%3 = matmul(%0 %2) forward 0 'other' f32 [batch:4 ff:8]\n"
        "output 'y' %3\n";
    tt_partition_params params = {.mesh = "tensor:2",
                                  .layout = "fc/embed:tensor"};
    tt_graph *g = cut(&params, text);
    check_place(g, tt_graph_find(g, "fc"), "S(embed)");
    const tt_val y = tt_graph_output_find(g, "y");
    CHECK(g->node[g->value[y.id].node].op == &tt_op_all_reduce);
    tt_graph_destroy(g);
    params.layout = "other/embed:tensor";
    g = cut(&params, text);
    check_place(g, tt_graph_find(g, "fc"), "R");
    check_place(g, tt_graph_output_find(g, "y"), "R");
    tt_graph_destroy(g);
}

// Whichever dim of a weight is cut: what meets it is whole on every rank.
TEST(tokens_are_whole_where_weights_are_cut)
{
    static const char text[] =
        "tutti-graph 1\n"
        "%0 = input 'x' i32 [batch:2 seq:8]\n"
        "%1 = param 'wte' f32 [vocab:8 embed:4] const 1\n"
        "%2 = embedding(%0 %1) forward 0 'wte' f32 [batch:2 seq:8 embed:4]\n"
        "output 'y' %2\n";
    const struct {
        const char *layout, *x;
    } cases[] = {{"seq:tensor vocab:tensor", "R"},
                 {"seq:tensor embed:tensor", "R"},
                 {"seq:tensor", "S(seq)"}};
    for (int i = 0; i < 3; i++) {
        const tt_partition_params params = {.mesh = "tensor:2",
                                            .layout = cases[i].layout};
        tt_graph *g = cut(&params, text);
        check_place(g, tt_graph_find(g, "x"), cases[i].x);
        tt_graph_destroy(g);
    }
}
