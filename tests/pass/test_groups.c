// Batch norm over groups of samples: what ranks tell each other.

#include "check/small.h"
#include "ops/ops.h"
#include "pass/partition/partition.h"
#include "pass/pass.h"
#include "test.h"

#include <string.h>

static tt_status build(int64_t batch, int64_t group, tt_graph **graph_out)
{
    static const tt_small resnet = {
        "resnet", "depth=18 width=2 classes=5", 0, 32, NULL, true};
    const tt_train_recipe recipe = {.optim = {.def = tt_optim_find("sgd")},
                                    .dtype = TT_F32,
                                    .master = TT_F32,
                                    .bn_group = group};
    return tt_small_build_as(&resnet, &recipe, batch, graph_out);
}

// Sums over ranks outside of the update, by their number of dimensions.
typedef struct sums {
    int forward[4], backward[4];
} sums;

static sums count(int64_t batch, int64_t group, const char *mesh)
{
    tt_graph *g = NULL, *parts = NULL;
    sums n = {0};
    const tt_partition_params params = {mesh, "batch:data"};
    CHECK_OK(build(batch, group, &g));
    CHECK_OK(tt_pass_apply(tt_pass_find("partition"), &params, g, &parts));
    for (int32_t i = 0; i < parts->n_nodes; i++) {
        const tt_node *node = &parts->node[i];
        if ((node->op->flags & TT_OP_COLLECTIVE) == 0 ||
            node->op == &tt_op_keep_first || node->phase == TT_UPDATE)
            continue;
        CHECK(node->op == &tt_op_all_reduce);
        const int ndim = parts->value[node->out[0].id].type.shape.ndim;
        n.forward[ndim] += node->phase == TT_FORWARD;
        n.backward[ndim] += node->phase == TT_BACKWARD;
    }
    tt_graph_destroy(g);
    tt_graph_destroy(parts);
    return n;
}

enum { N_NORMS = 20 };

// Two sums in one message for each norm and direction.
TEST(statistics_of_the_whole_batch_are_one_small_sum_each_way)
{
    const sums n = count(8, 0, "data:2");
    CHECK(n.forward[2] == N_NORMS && n.backward[2] == N_NORMS);
    CHECK(n.forward[1] == 0 && n.backward[1] == 0);
    CHECK(memcmp(&n, &(sums){{0, 0, N_NORMS}, {0, 0, N_NORMS}}, sizeof n) == 0);
}

// All that is left are the running mean and variance, which nobody waits for.
TEST(groups_within_a_rank_need_no_sums)
{
    const sums n = count(8, 2, "data:4");
    CHECK(memcmp(&n, &(sums){{0, 2 * N_NORMS}, {0}}, sizeof n) == 0);
    const sums m = count(8, 4, "data:2");
    CHECK(memcmp(&m, &n, sizeof n) == 0);
}

TEST(groups_across_ranks_are_summed_group_by_group)
{
    const sums want = {{0, 0, 0, N_NORMS}, {0, 0, 0, N_NORMS}};
    sums n = count(8, 4, "data:4"); // two ranks each
    CHECK(memcmp(&n, &want, sizeof n) == 0);
    n = count(8, 4, "data:3"); // one that begins and ends within ranks
    CHECK(memcmp(&n, &want, sizeof n) == 0);
}

TEST(one_group_is_the_whole_batch)
{
    const sums n = count(8, 8, "data:2"), whole = count(8, 0, "data:2");
    CHECK(memcmp(&n, &whole, sizeof n) == 0);
}

static void check_refused(int64_t batch, int64_t group, const char *why)
{
    tt_graph *g = NULL;
    CHECK(build(batch, group, &g) == TT_ERR_ARG);
    CHECK_MSG(strstr(tt_error_message(), why) != NULL, "%s",
              tt_error_message());
}

TEST(groups_that_do_not_divide_are_refused)
{
    check_refused(8, 3, "8 samples are not whole groups of 3; nearest: 2 or 4");
    check_refused(8, 12, "8 samples are not whole groups of 12; nearest: 8");
    check_refused(7, 2, "7 samples are not whole groups of 2; nearest: 1 or 7");
}
