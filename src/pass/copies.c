// copies - the model twice, in opposite directions (GEMS, Chimera).
//
// The problem. Two copies of the model lie on the ranks of a pipe, one from the first rank
// to the last, one the other way. A micro-batch goes through one of them. Both copies must
// have the same weights after every update.
//
// The idea. All that is done for a micro-batch is there twice, with the same weights: the
// graph of a model that is used in two places. Which of the two runs for a micro-batch is
// said by the schedule, whose rows are segments of the one or of the other.
//
//   ranks      0      1      2      3
//   copy 0     s0 --> s1 --> s2 --> s3        stages 0 1 2 3
//   copy 1     s3 <-- s2 <-- s1 <-- s0        stages 4 5 6 7: chunks 3 2 1 0
//
//   before   gradient = offer(...)                     summed over micro-batches
//   after    gradient = offer(copy 0) + offer(copy 1)  each over its own; added in the update
//
// The rest follows from placements, as for a weight that two layers share: it lies at both
// ranks, its gradient is a sum of terms that lie at both, and both make the same update.
// Random numbers depend on the sample and the name of the node, so dropout is that of one
// copy.
//
//   same     what is computed, but for the order of sums
//   memory   weights and their state twice
//   needs    comes before partition. No state may change with every micro-batch: each copy
//            would see half of them

#include "pass/copies.h"

#include "ops/arith.h"
#include "ops/ops.h"
#include "pass/copy.h"
#include "pass/pass.h"

typedef struct work {
    tt__rewrite r;
    tt_val *other;    // per old value: that of the second copy
    int32_t n_chunks; // of one copy
} work;

static tt_status refuse(const work *w, const tt_node *node)
{
    for (int i = 0; i < node->n_out; i++) {
        const tt_val state = w->r.old->value[node->out[i].id].updates;
        if (tt_is(state))
            return tt_fail(TT_ERR_ARG,
                           "%s changes with every micro-batch, and each of two "
                           "copies of the model would see half of them; "
                           "pipe.schedule=1f1b has one copy",
                           w->r.old->value[state.id].name);
    }
    return node->op == &tt_op_largest
               ? tt_fail(TT_ERR_ARG,
                         "precision=fp8 keeps peaks over all micro-batches, "
                         "and there are two copies of the model; "
                         "pipe.schedule=1f1b has one")
               : TT_OK;
}

// The node once more, in the stage of the second copy.
static tt_status repeat(work *w, const tt_node *node)
{
    tt_builder *b = &w->r.b;
    tt_val out[TT_MAX_OUT];
    for (int i = 0; i < node->n_in; i++)
        w->r.in[i] = tt_is(node->in[i]) ? w->other[node->in[i].id] : TT_NONE;
    TT_TRY(tt__copy_aim(b, node->phase,
                        tt_mesh_copy_stage(w->n_chunks, 1, node->stage),
                        node->origin));
    (void)tt_call(b, node->op, node->params, w->r.in, node->n_in, out);
    TT_TRY(b->status);
    for (int i = 0; i < node->n_out; i++)
        w->other[node->out[i].id] = out[i];
    return TT_OK;
}

// What each copy has summed over its micro-batches is added for the update.
static tt_status add_up(work *w, const tt_node *node)
{
    tt_val *sum = &w->r.kept[node->out[0].id];
    TT_TRY(tt__copy_aim(&w->r.b, TT_UPDATE, node->stage, node->origin));
    *sum = tt_add(&w->r.b, *sum, w->other[node->out[0].id]);
    return w->r.b.status;
}

static void take_leaves(work *w, const tt_node *node)
{
    for (int i = 0; i < node->n_in; i++)
        if (tt_is(node->in[i]) && w->r.old->value[node->in[i].id].node < 0)
            w->other[node->in[i].id] = w->r.kept[node->in[i].id];
}

static tt_status do_node(void *pass, int32_t n)
{
    work *w = pass;
    const tt_node *node = &w->r.old->node[n];
    tt__rewrite_inputs(&w->r, node->in, node->n_in);
    if (node->phase == TT_UPDATE)
        return tt__copy_node(&w->r.b, w->r.old, node, w->r.in, node->n_in,
                             w->r.kept);
    TT_TRY(refuse(w, node));
    take_leaves(w, node);
    TT_TRY(
        tt__copy_node(&w->r.b, w->r.old, node, w->r.in, node->n_in, w->r.kept));
    TT_TRY(repeat(w, node));
    return (node->op->flags & TT_OP_ACCUMULATE) != 0 ? add_up(w, node) : TT_OK;
}

static tt_status apply(const tt_graph *in, const void *params, tt_graph **out)
{
    const tt_copies_params *p = params;
    work w = {.n_chunks = (int32_t)p->chunks};
    TT_TRY(tt__rewrite_begin(&w.r, in, 0));
    w.other = tt__rewrite_vals(&w.r, in->n_values);
    tt_status status = w.r.b.status;
    if (status == TT_OK)
        status = tt__rewrite_nodes(&w.r, &w, do_node);
    if (status == TT_OK)
        status = tt__copy_ends(&w.r.b, in, w.r.kept);
    return tt__rewrite_end(&w.r, status, out);
}

static const tt_opt options[] = {
    {"chunks", "1", "chunks of one copy", TT_OPT_I64,
     offsetof(tt_copies_params, chunks), NULL, 1, 1 << 16},
    {0},
};

const tt_pass_def tt_pass_copies = {
    .name = "copies",
    .doc = "The model twice, for schedules in both directions.",
    .options = options,
    .params_bytes = sizeof(tt_copies_params),
    .apply = apply,
    .tested_by = "the law flight",
};
