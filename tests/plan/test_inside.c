// Functions of lowering by themselves: in which order nodes are looked at, and which
// blocks have a layout.

#include "ops/ops.h"
#include "plan/lower.h"
#include "test.h"

static tt_graph *parse(const char *text)
{
    tt_graph *g = NULL;
    CHECK_OK(tt_graph_parse(text, tt_op_find, &g));
    return g;
}

// Gradients of weights wait for communication; but what somebody reads comes first.
TEST(gradients_of_weights_wait_for_communication_unless_they_are_read)
{
    static const char text[] =
        "tutti-graph 1\nmesh data:2\n"
        "%0 = input \"x\" f32 [n:4] {R}\n"
        "%1 = relu(%0) weight_grad 0 \"a\" f32 [n:4] {R}\n"
        "%2 = relu(%0) weight_grad 0 \"b\" f32 [n:4] {R}\n"
        "%3 = add(%0 %2) backward 0 \"c\" f32 [n:4] {R}\n"
        "%4 = relu(%0) weight_grad 0 \"d\" f32 [n:4] {R}\n"
        "%5 = relu(%0) backward 0 \"e\" f32 [n:4] {P(sum)}\n"
        "%6 = all_reduce(%5) axis=0; backward 0 \"f\" f32 [n:4] {R}\n"
        "%7 = relu(%0) weight_grad 0 \"g\" f32 [n:4] {R}\n";
    // c reads b: a and b go before it. d waits until f has begun; g is the last.
    static const char want[] = "abcefdg";
    tt_graph *g = parse(text);
    int32_t order[7];
    CHECK(g->n_nodes == 7);
    tt__order_nodes(g, order);
    for (int i = 0; i < 7; i++)
        CHECK_MSG(g->node[order[i]].origin[0] == want[i], "%d: %s", i,
                  g->node[order[i]].origin);
    tt_graph_destroy(g);
}

static int32_t layout_part(tt_target *target, int32_t layout, int64_t entries)
{
    (void)target;
    return 10 * layout + (int32_t)entries;
}

static tt_operand operand(const char *dims, int32_t layout)
{
    tt_operand o = {.dtype = TT_F32, .layout = layout};
    CHECK_OK(tt_shape_parse(dims, &o.local.shape));
    return o;
}

// Blocks of a layout are those of its first factor: all others are whole.
TEST(only_blocks_of_the_first_factor_have_a_layout)
{
    tt_target target = {.layout_part = layout_part};
    tt__lower l = {.target = &target, .is_even = true};
    const tt_operand whole = operand("a:8 b:4 c:6", 7);
    const tt_operand dense = operand("a:8 b:4 c:6", 0);
    const tt_operand first = operand("a:2 b:4 c:6", 0);
    const tt_operand second = operand("a:8 b:2 c:6", 0);
    const tt_operand last = operand("a:8 b:4 c:3", 0);
    const tt_operand other = operand("a:2 b:4.c:6", 0);
    const tt_operand fewer = operand("a:2 b:4", 0);
    CHECK(tt__part_layout(&l, &whole, &first) == 72);
    CHECK(tt__part_layout(&l, &whole, &other) == 72);
    CHECK(tt__part_layout(&l, &dense, &first) == 0);
    CHECK(tt__part_layout(&l, &whole, &second) == 0);
    CHECK(tt__part_layout(&l, &whole, &last) == 0);
    CHECK(tt__part_layout(&l, &whole, &fewer) == 0);
    l.is_even = false;
    CHECK(tt__part_layout(&l, &whole, &first) == 0);
}
