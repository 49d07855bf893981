// dropout - each element becomes 0 with probability p, else x / (1 - p).
//
// No mask is stored. Element i of the whole value is kept iff its random number
// (Philox, keyed by seed, the node's origin, step and i) is at least p. So the mask is
// the same on whatever rank the element is, in the gradient, and in recomputation.
//
// The optional inputs say which samples of the step a micro-batch has: the first one,
// and how many all micro-batches have together. The index along `batch` then counts all
// samples of the step, so the mask does not depend on the number of micro-batches.
//
//   flops   1 per element (random numbers count as work: 40 integer operations)

#include "ops/act/activation.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"

#include <string.h>

static tt_status infer(tt_op_io *io)
{
    TT_TRY(tt_infer_inputs(io, "dropout", 3, 5));
    TT_TRY(tt_infer_float(io, "dropout", 0));
    for (int i = 1; i < io->n_in; i++)
        TT_TRY(tt_infer_scalar(io, "dropout", i, TT_I64));
    tt_infer_add(io, io->in[0].dtype, &io->in[0].shape);
    return TT_OK;
}

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    const char *origin = b->origin;
    b->origin = node->origin; // the key of the same random numbers
    tt_val in[5] = {dout[0]};
    for (int i = 1; i < node->n_in; i++)
        in[i] = node->in[i];
    if (need[0])
        din[0] = tt_call(b, &tt_op_dropout, node->params, in, node->n_in, NULL);
    b->origin = origin;
    return tt_builder_status(b);
}

static void shard(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
    tt_shard_partial(io, 1, TT_SUM, sigs);
}

static void cost(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_elementwise(io, 0, 1, cost_out);
    cost_out->work = 41 * tt_cost_count(&io->out[0]);
}

// Random numbers are keyed by origin, so two nodes of one scope must differ.
static const char *own_origin(tt_builder *b)
{
    const size_t length = strlen(b->scope);
    int n_before = 0;
    for (int32_t n = 0; n < b->graph->n_nodes; n++) {
        const tt_node *node = &b->graph->node[n];
        n_before += node->op == &tt_op_dropout &&
                    strncmp(node->origin, b->scope, length) == 0 &&
                    strncmp(node->origin + length, ".dropout", 8) == 0;
    }
    const char *origin =
        tt_arena_printf(b->graph->arena, "%s.dropout%d", b->scope, n_before);
    if (origin == NULL)
        tt_builder_fail(b, TT_ERR_NOMEM);
    return origin;
}

tt_val tt_dropout(tt_builder *b, tt_val x, double p)
{
    if (p <= 0 || !b->is_training || tt_builder_status(b) != TT_OK)
        return x;
    const char *origin = b->origin;
    const tt_val in[] = {
        x, tt_scalar(b, "seed", TT_I64), tt_scalar(b, "step", TT_I64),
        tt_scalar(b, "first_sample", TT_I64), tt_scalar(b, "samples", TT_I64)};
    b->origin = own_origin(b);
    const tt_val y =
        tt_call(b, &tt_op_dropout, &(tt_dropout_params){.p = p}, in, 5, NULL);
    b->origin = origin;
    return y;
}

tt_local tt_dropout_local(const tt_site *site, const void *const *in)
{
    tt_local local = site->in[0].local;
    const int f = tt_shape_find(&local.shape, "batch");
    if (site->n_in < 5 || f < 0)
        return local;
    const int64_t first = *(const int64_t *)in[3];
    const int64_t samples = *(const int64_t *)in[4];
    if (first + local.global[f] > samples)
        return local; // the scalars were not set
    local.origin[f] += first;
    local.global[f] = samples;
    return local;
}

static const tt_opt options[] = {
    {"p", "0.1", "the probability that an element becomes 0", TT_OPT_F64,
     .offset = offsetof(tt_dropout_params, p), .min = 0, .max = 1},
    {0},
};

static const tt_sample samples[] = {
    {"p=0.3", {"f a:7 b:5", "I=11", "I=3"}, 35},
    {"p=0.5", {"f a:2 b:3.c:4", "I=1", "I=2"}, 24},
    {"p=0", {"f a:5", "I=1", "I=2"}, 5},
    {"p=1", {"f a:5", "I=1", "I=2"}, 5},
    {"p=0.4", {"f a:3 batch:2 c:5", "I=1", "I=2", "I=4", "I=9"}, 30},
    {0},
};

const tt_op_def tt_op_dropout = {
    .name = "dropout",
    .doc = "Elements become 0 at random, the others grow to make up for it.",
    .options = options,
    .params_bytes = sizeof(tt_dropout_params),
    .flags = TT_OP_INPLACE,
    .infer = infer,
    .grad = grad,
    .shard = shard,
    .cost = cost,
    .samples = samples,
};
