// loss_chunks - computing the loss in chunks, so that the logits never exist as a
// whole.
//
// With a vocabulary of 50,000 the logits of a micro-batch and their gradient are
// often the largest values of a step. The chunk pass (pass/chunk.h) cuts the rows
// (batch x seq) and does head, loss and backward piece by piece.
//
// A chunk must have rows of every rank, or some ranks would be idle. The pass
// cannot know how ranks will hold the rows, because it runs before the partition
// pass. This file tells it, from the mesh and the layout: "batch:4 seq:2" means
// that the batch will lie in 4 blocks and the sequence in 2.

#include "config/layout_check.h"
#include "job/exact.h"
#include "job/internal.h"
#include "ops/ops.h"
#include "pass/chunk.h"

#include <string.h>

// The number of blocks in which ranks will hold a dimension of the rows. Zigzag
// attention gives every rank two pieces of the sequence, so it doubles the number.
static int64_t blocks_of(const tt_job *job, const tt_graph *g, const char *dim)
{
    const tt_val x = tt_graph_find(g, "x");
    const int64_t exact =
        tt__exact_blocks(job, tt_shape_dim(&g->value[x.id].type.shape, 0));
    int64_t n = 1;
    for (int a = 0; a < TT_N_AXES; a++) {
        const char *axis = tt_axis_name[a];
        const bool is_data = a == TT_AXIS_DATA;
        const bool is_batch = strcmp(dim, "batch") == 0;
        int64_t size = job->grid.size[a];
        if (is_data && is_batch && exact > size)
            size = exact;
        if (size <= 1 || !(tt_layout_cuts(&job->grid.layout, "", dim, axis) ||
                           (is_data && is_batch)))
            continue;
        n *= size;
        if (strcmp(dim, "seq") == 0 &&
            strcmp(tt_distribution_zigzag(&job->distribution, g), axis) == 0)
            n *= 2;
    }
    return n;
}

int64_t tt__chunks_in(const tt_graph *graph)
{
    int64_t n = 0;
    for (int32_t i = 0; i < graph->n_nodes; i++)
        n += graph->node[i].op == &tt_op_cross_entropy;
    return n;
}

tt_status tt__job_chunk(const tt_job *job, int64_t chunks, tt_graph **graph)
{
    tt_chain chain = {0};
    if (chunks <= 1)
        return TT_OK;
    const tt_chunk_params params = {
        chunks, tt_arena_printf(job->arena, "batch:%lld seq:%lld",
                                (long long)blocks_of(job, *graph, "batch"),
                                (long long)blocks_of(job, *graph, "seq"))};
    if (params.cuts == NULL)
        return TT_ERR_NOMEM;
    tt_chain_add(&chain, &tt_pass_chunk, &params);
    const tt_status status = tt_chain_apply(&chain, graph);
    return status == TT_OK
               ? status
               : tt_fail_context(status, "loss.chunks=%lld", (long long)chunks);
}
