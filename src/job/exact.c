// exact - see the header, and docs/exact.md.
//
// Floating-point addition is not associative. With data parallelism the order of a
// gradient's sum depends on how many ranks there are, and so do the last bits of
// the loss. Exact mode gives every sum over a step one fixed order, whatever the
// number of ranks:
//
//   gradients   blocks of a micro-batch in pairs, these in pairs, ... over ranks too;
//               then micro-batch after micro-batch
//   tallies     each block's over micro-batches; then blocks as above
//   norms       in any order: their sums are exact
//
// The unit is a block: some samples of a micro-batch. There is a fixed number of
// blocks (exact.blocks, a power of two). The graph is partitioned as if each block
// were a rank. Then pass/blocks.c gives each rank several blocks, and the pairwise
// tree over blocks is the same tree, only its upper levels are sent:
//
//        +            the root, between ranks
//      /   \      sums of pairs
//     +     +         inside rank 0 and inside rank 1
//    / \   / \    sums of pairs
//   b0 b1 b2 b3       4 blocks on 2 ranks
//
// The cost: the number of ranks must divide the number of blocks, a rank works on
// smaller pieces than it could, and NCCL is not used.

#include "job/exact.h"

#include "comm/coll/coll.h"
#include "pass/blocks.h"

#include <string.h>

// All blocks of a micro-batch. A power of two, so that every half of the ranks
// holds half of the blocks and the tree of sums has the same shape.
static int64_t all_blocks(const tt_job *job, int64_t micro)
{
    int64_t n = 1;
    while (2 * n <= job->train.blocks && micro % (2 * n) == 0)
        n *= 2;
    return n;
}

// Ranks along `expert` divide the batch too, so they take a share of the blocks.
static int64_t other_ranks(const tt_job *job)
{
    return job->grid.data / job->grid.size[TT_AXIS_DATA];
}

int64_t tt__exact_blocks(const tt_job *job, int64_t micro)
{
    return job->options.exact ? all_blocks(job, micro) / other_ranks(job) : 1;
}

static bool is_power_of_2(int64_t n)
{
    return (n & (n - 1)) == 0;
}

static tt_status check_blocks(const tt_job *job)
{
    const int64_t ranks = job->grid.data, micro = job->options.micro;
    const int64_t blocks = all_blocks(job, micro);
    if (blocks % ranks == 0)
        return TT_OK;
    int64_t fewer = 1;
    while (2 * fewer <= blocks && 2 * fewer <= ranks)
        fewer *= 2;
    if (!is_power_of_2(ranks))
        return tt_fail(TT_ERR_ARG,
                       "exact: %lld ranks cannot share %lld blocks of a "
                       "micro-batch evenly; %lld ranks would do",
                       (long long)ranks, (long long)blocks, (long long)fewer);
    if (micro % ranks != 0)
        return tt_fail(
            TT_ERR_ARG,
            "exact: a micro-batch of %lld has %lld equal block%s, too few for "
            "%lld ranks; a micro-batch of %lld or %lld rank%s would do",
            (long long)micro, (long long)blocks, blocks == 1 ? "" : "s",
            (long long)ranks, (long long)((micro + ranks - 1) / ranks * ranks),
            (long long)fewer, fewer == 1 ? "" : "s");
    return tt_fail(TT_ERR_ARG,
                   "exact.blocks=%lld is too few for %lld ranks; "
                   "exact.blocks=%lld would do, in a run that begins with it",
                   (long long)job->train.blocks, (long long)ranks,
                   (long long)ranks);
}

// With experts there must be exactly one block per rank: ranks along `expert`
// divide the batch a second time.
static tt_status check_experts(const tt_job *job)
{
    const int64_t ranks = job->grid.data,
                  blocks = all_blocks(job, job->options.micro);
    if (other_ranks(job) == 1 || blocks == ranks)
        return TT_OK;
    return tt_fail(
        TT_ERR_ARG,
        "exact: with mesh.expert=%lld a micro-batch has as many "
        "blocks as %lld ranks, not %lld; exact.blocks=%lld would do, "
        "in a run that begins with it",
        (long long)job->grid.size[TT_AXIS_EXPERT], (long long)ranks,
        (long long)blocks, (long long)ranks);
}

tt_status tt__exact_check(const tt_job *job)
{
    const char *name = job->distribution.collective;
    if (!job->options.exact)
        return TT_OK;
    if (!is_power_of_2(job->train.blocks)) {
        int64_t below = 1;
        while (2 * below < job->train.blocks)
            below *= 2;
        return tt_fail(TT_ERR_ARG,
                       "exact.blocks=%lld is no power of two; %lld or %lld "
                       "would do",
                       (long long)job->train.blocks, (long long)below,
                       (long long)(2 * below));
    }
    if (strcmp(name, "auto") != 0 && !tt_coll_find(name)->is_ordered)
        return tt_fail(TT_ERR_ARG,
                       "collective=%s sums in an order of its own, which exact "
                       "cannot have; collective=auto would do",
                       name);
    TT_TRY(check_blocks(job));
    return check_experts(job);
}

tt_status tt__exact_partition(const tt_job *job, int64_t blocks,
                              tt_partition_params *params)
{
    params->canonical = job->options.exact;
    TT_TRY(tt_grid_mesh(&job->distribution, &job->grid, blocks, job->arena,
                        &params->mesh));
    if (job->grid.size[TT_AXIS_DATA] > 1)
        return TT_OK;
    // One rank has no batch rule in its layout, but blocks are cut by one.
    tt_layout *rules = tt_arena_alloc(job->arena, sizeof *rules);
    if (rules == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_layout_add(
        rules, job->arena,
        &(tt_layout_rule){.dim = "batch", .axis = tt_axis_name[TT_AXIS_DATA]}));
    for (int32_t i = 0; i < params->rules->n; i++)
        TT_TRY(tt_layout_add(rules, job->arena, &params->rules->rule[i]));
    params->rules = rules;
    return TT_OK;
}

void tt__exact_fold(const tt_job *job, int64_t blocks, int64_t micro,
                    tt_chain *chain)
{
    const tt_blocks_params params = {.ranks = job->grid.size[TT_AXIS_DATA],
                                     .at_once = job->options.exact &&
                                                job->options.batch == micro};
    if (blocks != params.ranks || params.at_once)
        tt_chain_add(chain, &tt_pass_blocks, &params);
}
