// Blocks: what several ranks of an axis on each leave in a graph.

#include "check/small.h"
#include "ops/comm/comm.h"
#include "ops/ops.h"
#include "pass/blocks.h"
#include "pass/partition/partition.h"
#include "pass/pass.h"
#include "pass/rewrite.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static const tt_small mlp = {"mlp", "layers=2 width=12 classes=5", 0, 6, NULL,
                             false};
static const tt_small lstm = {
    "lstm", "layers=1 embed=6 hidden=5 vocab=9", 5, 0, NULL, false};

static tt_graph *cut(const tt_small *small, int blocks, int zero)
{
    char mesh[32];
    tt_graph *whole = NULL, *parts = NULL;
    snprintf(mesh, sizeof mesh, "data:%d", blocks);
    CHECK_OK(tt_small_build(small, 2 * blocks, &whole));
    const tt_partition_params params = {
        .mesh = mesh, .layout = "batch:data", .zero = zero, .canonical = true};
    CHECK_OK(tt_pass_apply(tt_pass_find("partition"), &params, whole, &parts));
    tt_graph_destroy(whole);
    return parts;
}

static tt_graph *share(const tt_graph *g, int ranks, bool at_once)
{
    tt_graph *shared = NULL;
    const tt_blocks_params params = {.ranks = ranks, .at_once = at_once};
    CHECK_OK(tt_pass_apply(tt_pass_find("blocks"), &params, g, &shared));
    return shared;
}

static int count(const tt_graph *g, const tt_op_def *op, int phase)
{
    int n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        n += g->node[i].op == op &&
             (phase < 0 || g->node[i].phase == (tt_phase)phase);
    return n;
}

static int collectives(const tt_graph *g)
{
    int n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++)
        n += (g->node[i].op->flags & TT_OP_COLLECTIVE) != 0;
    return n;
}

TEST(blocks_of_one_rank_need_no_communication)
{
    tt_graph *parts = cut(&mlp, 4, 0), *one = share(parts, 1, false);
    CHECK(collectives(parts) > 0);
    CHECK(collectives(one) == 0);
    CHECK(tt_mesh_ranks(&one->mesh) == 1);
    // Blocks stay blocks from the inputs to the losses, and nothing is left to sum.
    CHECK(count(one, &tt_op_unblock, -1) == 0);
    for (int32_t v = 0; v < one->n_values; v++) {
        CHECK(one->value[v].type.place[0].kind != TT_PARTIAL);
        // A rank alone has all of a leaf, whichever way ranks would share it.
        if (one->value[v].node < 0)
            CHECK(one->value[v].type.place[0].kind == TT_REPLICATE);
    }
    // Products once per block; weights are read as they are.
    CHECK(count(one, &tt_op_matmul, TT_FORWARD) ==
          4 * count(parts, &tt_op_matmul, TT_FORWARD));
    CHECK(count(one, &tt_op_fetch, -1) == count(parts, &tt_op_fetch, -1));
    CHECK(count(one, &tt_op_offer, -1) == count(parts, &tt_op_offer, -1));
    CHECK(count(one, &tt_op_sgd, -1) == count(parts, &tt_op_sgd, -1));
    tt_graph_destroy(one);
    tt_graph_destroy(parts);
}

TEST(blocks_send_what_as_many_ranks_send)
{
    for (int zero = 0; zero < 4; zero++) {
        tt_graph *parts = cut(&mlp, 4, zero), *two = share(parts, 2, false);
        static const tt_op_def *const ops[] = {
            &tt_op_all_reduce, &tt_op_reduce_scatter, &tt_op_all_gather};
        for (int i = 0; i < 3; i++)
            CHECK_MSG(count(two, ops[i], -1) == count(parts, ops[i], -1),
                      "zero %d: %d of %s", zero, count(two, ops[i], -1),
                      ops[i]->name);
        CHECK(tt_mesh_ranks(&two->mesh) == 2);
        tt_graph_destroy(two);
        tt_graph_destroy(parts);
    }
}

TEST(blocks_sum_gradients_over_ranks_in_the_update_where_that_is_asked_for)
{
    tt_graph *parts = cut(&mlp, 4, 0);
    tt_graph *soon = share(parts, 2, false), *late = share(parts, 2, true);
    const int before = count(soon, &tt_op_all_reduce, -1) -
                       count(soon, &tt_op_all_reduce, TT_UPDATE);
    CHECK(before > 0);
    CHECK(count(late, &tt_op_all_reduce, -1) ==
          count(late, &tt_op_all_reduce, TT_UPDATE));
    CHECK(count(late, &tt_op_all_reduce, -1) ==
          count(soon, &tt_op_all_reduce, -1));
    for (int32_t v = 0; v < late->n_values; v++)
        if (tt_is(late->value[v].grad))
            CHECK(late->value[late->value[v].grad.id].type.place[0].kind ==
                  TT_REPLICATE);
    tt_graph_destroy(late);
    tt_graph_destroy(soon);
    tt_graph_destroy(parts);
}

// Terms are added as soon as there are two: of four at most three are alive.
TEST(blocks_add_terms_of_gradients_before_the_next_ones_are_made)
{
    tt_graph *parts = cut(&mlp, 4, 0), *one = share(parts, 1, false);
    int order[16] = {0}, n = 0;
    for (int32_t i = 0; i < one->n_nodes && n < 7; i++) {
        const tt_node *node = &one->node[i];
        if (node->op == &tt_op_matmul_grad_w)
            order[n++] = 'w';
        else if (node->op == &tt_op_add && node->phase == TT_WEIGHT_GRAD &&
                 n > 0)
            order[n++] = '+';
    }
    CHECK(n == 7);
    static const char want[] = "ww+ww++";
    for (int i = 0; i < n; i++)
        CHECK_MSG(order[i] == want[i], "step %d is %c", i, order[i]);
    tt_graph_destroy(one);
    tt_graph_destroy(parts);
}

static double loss_of(const tt_graph *g, int64_t batch)
{
    const tt_small_steps steps = {batch, .n_micro = 1, .n_steps = 2};
    tt_interp *it = NULL;
    CHECK_OK(tt_small_train(g, &steps, &it));
    const double loss = tt_small_loss(it, g);
    tt_interp_destroy(it);
    return loss;
}

// Powers of two have the same bits; others add up too.
TEST(blocks_of_any_number_add_up)
{
    static const int numbers[] = {3, 5, 6, 7};
    for (int i = 0; i < 4; i++) {
        tt_graph *parts = cut(&mlp, numbers[i], 0);
        tt_graph *one = share(parts, 1, false);
        const double want = loss_of(parts, 2 * numbers[i]);
        const double loss = loss_of(one, 2 * numbers[i]);
        CHECK_MSG(fabs(loss - want) <= 1e-12 * want,
                  "%d blocks: %.17g, not %.17g", numbers[i], loss, want);
        tt_graph_destroy(one);
        tt_graph_destroy(parts);
    }
}

// A sum that the host reads is not left to the update.
TEST(blocks_sum_at_once_what_is_an_output)
{
    tt_graph *parts = cut(&mlp, 4, 0), *more = NULL;
    tt_str text = {0};
    tt_graph_print(parts, &text);
    for (int32_t n = 0; n < parts->n_nodes; n++)
        if (parts->node[n].op == &tt_op_offer)
            tt_str_addf(&text, "output \"dw%d\" %%%d\n", n,
                        parts->node[n].in[1].id);
    CHECK_OK(tt_graph_parse(tt_str_text(&text), tt_op_find, &more));
    tt_graph *two = share(more, 2, true);
    CHECK(two->n_outputs > parts->n_outputs);
    for (int32_t o = 0; o < two->n_outputs; o++)
        CHECK(two->value[two->output[o].val.id].type.place[0].kind !=
              TT_PARTIAL);
    tt_str_fini(&text);
    tt_graph_destroy(two);
    tt_graph_destroy(more);
    tt_graph_destroy(parts);
}

TEST(blocks_change_their_cut_between_ranks_only)
{
    static const char four[] =
        "tutti-graph 1\nmesh data:4\n"
        "%0 = input 'x' f32 [batch:8 in:4] {S(batch)}\n"
        "%1 = all_to_all(%0) from=batch to=in; forward 0 'x' f32 [batch:8 "
        "in:4] {S(in)}\n"
        "output 'x' %1\n";
    const tt_blocks_params two = {.ranks = 2}, one = {.ranks = 1};
    rewrite_check("blocks", &two, four,
                  "tutti-graph 1\nmesh data:2\n"
                  "%0 = input 'x' f32 [batch:8 in:4] {S(batch)}\n"
                  "%1 = all_to_all(%0) from=batch to=in; forward 0 'x' f32 "
                  "[batch:8 in:4] {S(in)}\n"
                  "output 'x' %1\n");
    rewrite_check("blocks", &one, four,
                  "tutti-graph 1\nmesh data:1\n"
                  "%0 = input 'x' f32 [batch:8 in:4] {R}\n"
                  "output 'x' %0\n");
}

// The last axis too.
TEST(blocks_that_another_axis_cuts_again_are_refused)
{
    const tt_blocks_params one = {.ranks = 1};
    CHECK(rewrite("blocks", &one,
                  "tutti-graph 1\nmesh data:2 tensor:2\n"
                  "%0 = input 'x' f32 [batch:8 in:4] {S(batch) S(batch)}\n"
                  "%1 = input 'w' f32 [in:4 out:3] {R R}\n"
                  "%2 = matmul(%0 %1) forward 0 'y' f32 [batch:8 out:3] "
                  "{S(batch) S(batch)}\n"
                  "output 'y' %2\n") == NULL);
    CHECK(strstr(tt_error_message(), "tensor cuts what data cuts") != NULL);
}

TEST(blocks_keep_phase_and_stage)
{
    tt_graph *parts = cut(&mlp, 4, 0);
    for (int32_t i = 0; i < parts->n_nodes; i++)
        parts->node[i].stage = parts->node[i].op == &tt_op_matmul ? 3 : 1;
    tt_graph *two = share(parts, 2, false);
    for (int32_t i = 0; i < two->n_nodes; i++)
        CHECK(two->node[i].stage == (two->node[i].op == &tt_op_matmul ? 3
                                     : two->node[i].op == &tt_op_block
                                         ? two->node[i].stage
                                         : 1));
    CHECK(count(two, &tt_op_matmul, TT_BACKWARD) ==
          2 * count(parts, &tt_op_matmul, TT_BACKWARD));
    tt_graph_destroy(two);
    tt_graph_destroy(parts);
}

// Inputs stay one value; blocks are views of it, as the ranks that are missing have
// them.
TEST(blocks_of_inputs_begin_where_those_of_ranks_do)
{
    tt_graph *parts = cut(&lstm, 4, 0), *two = share(parts, 2, false);
    const tt_val x = tt_graph_find(two, "x");
    CHECK(tt_is(x) && two->value[x.id].role == TT_ROLE_INPUT);
    int seen = 0;
    for (int32_t i = 0; i < two->n_nodes; i++) {
        const tt_node *node = &two->node[i];
        const tt_type *type = &two->value[node->out[0].id].type;
        if (node->op != &tt_op_block)
            continue;
        const int f = type->place[0].factor;
        CHECK(strcmp(type->shape.factor[f].name, "batch") == 0);
        for (int rank = 0; rank < 2; rank++) {
            tt_local local;
            tt_local_of(type, &two->mesh, rank, &local);
            CHECK(local.shape.factor[f].size == 2);
            CHECK(local.origin[f] == 4 * rank + 2 * type->place[0].part);
        }
        CHECK(type->place[0].parts == 2);
        seen |= 1 << type->place[0].part;
    }
    CHECK(seen == 3);
    tt_graph_destroy(two);
    tt_graph_destroy(parts);
}

TEST(blocks_print_and_parse_to_the_same_text)
{
    tt_graph *parts = cut(&lstm, 4, 3), *two = share(parts, 2, true);
    tt_graph *again = NULL;
    tt_str a = {0}, b = {0};
    tt_graph_print(two, &a);
    CHECK(strstr(tt_str_text(&a), "S(batch#1,2)") != NULL);
    CHECK_OK(tt_graph_parse(tt_str_text(&a), tt_op_find, &again));
    tt_graph_print(again, &b);
    CHECK(strcmp(tt_str_text(&a), tt_str_text(&b)) == 0);
    tt_str_fini(&a);
    tt_str_fini(&b);
    tt_graph_destroy(again);
    tt_graph_destroy(two);
    tt_graph_destroy(parts);
}

TEST(blocks_that_cannot_be_shared_are_refused)
{
    tt_graph *parts = cut(&mlp, 4, 0), *shared = NULL;
    const tt_pass_def *def = tt_pass_find("blocks");
    CHECK(tt_pass_apply(def, &(tt_blocks_params){.ranks = 3}, parts, &shared) ==
          TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "cannot be shared by 3 ranks") != NULL);
    CHECK(tt_pass_apply(def, &(tt_blocks_params){.axis = "tensor", .ranks = 2},
                        parts, &shared) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "no axis tensor") != NULL);
    CHECK(shared == NULL);
    tt_graph_destroy(parts);
}
