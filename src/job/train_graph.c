// train_graph - adds loss, gradient and optimiser to a model's graph.
//
// The loss is a sum, not a mean. Micro-batches and ranks may have different numbers
// of targets, because labels below 0 are left out. Sums of losses and of counts add
// up over all of them; the division comes once, at the end (and in the update, for
// the gradient). A mean of means would weigh targets differently in each partition.
//
// tt_op_tally marks a value that is summed over the micro-batches of a step.

#include "job/train_graph.h"

#include "graph/grad.h"
#include "ops/arith.h"
#include "ops/gradops.h"
#include "ops/ops.h"

#include <stdio.h>

static tt_val tally(tt_builder *b, const char *name, tt_val v)
{
    const tt_val sum = tt_call(b, &tt_op_tally, NULL, &v, 1, NULL);
    tt_output(b, name, sum);
    return sum;
}

typedef struct losses {
    tt_val loss, count; // of one micro-batch
} losses;

static losses add_loss(tt_builder *b, const tt_train_recipe *recipe,
                       const tt_model_io *io)
{
    losses l;
    tt_val out[TT_MAX_OUT];
    const tt_val in[] = {io->logits, io->labels};
    const int scope = tt_scope_push(b, "loss");
    l.loss = tt_callf(b, &tt_op_cross_entropy, in, 2, "smoothing=%.17g",
                      recipe->smoothing);
    tt_outputs_of(b, l.loss, out);
    l.count = out[1];
    tt_scope_pop(b, scope);
    return l;
}

static tt_val add_correct(tt_builder *b, const tt_model_io *io)
{
    const tt_val in[] = {io->logits, io->labels};
    return tt_call(b, &tt_op_correct, NULL, in, 2, NULL);
}

// The same over the step.
static losses add_tallies(tt_builder *b, const tt_model_io *io, const losses *l)
{
    const int scope = tt_scope_push(b, "loss");
    losses sums;
    sums.loss = tally(b, "loss", l->loss);
    sums.count = tally(b, "count", l->count);
    (void)tally(b, "correct", add_correct(b, io));
    tt_scope_pop(b, scope);
    return sums;
}

static tt_val tally_of(tt_builder *b, const char *name, int32_t stage, tt_val v)
{
    const char *own = tt_arena_printf(b->graph->arena, "%s.%d", name, stage);
    return own == NULL ? tt_builder_fail(b, TT_ERR_NOMEM) : tally(b, own, v);
}

// Of each stage, with the gradients that it makes; see tt_train_recipe.is_endless. Of the
// first alone where its gradients are the last to come, in every step.
static tt_status add_stage_tallies(tt_builder *b, const tt_model_io *io,
                                   const losses *l, int32_t n_stages,
                                   tt_val *count)
{
    const int32_t stage = b->stage;
    const tt_phase phase = b->phase;
    const int scope = tt_scope_push(b, "loss");
    const tt_val correct = add_correct(b, io);
    b->phase = TT_BACKWARD;
    for (b->stage = 0; b->stage < n_stages; b->stage++) {
        (void)tally_of(b, "loss", b->stage, l->loss);
        count[b->stage] = tally_of(b, "count", b->stage, l->count);
        (void)tally_of(b, "correct", b->stage, correct);
    }
    tt_scope_pop(b, scope);
    b->stage = stage;
    b->phase = phase;
    return b->status;
}

// See tt_train_recipe.asks_to_stop: a wish that travels with the losses.
static void add_stop(tt_builder *b, const tt_train_recipe *recipe,
                     const tt_model_io *io)
{
    char shape[32];
    if (!recipe->asks_to_stop)
        return;
    snprintf(shape, sizeof shape, "batch:%lld", (long long)io->batch);
    const tt_val stop = tt_input(b, "stop", TT_F32, shape);
    (void)tally(b, "stop", tt_call(b, &tt_op_reduce, NULL, &stop, 1, NULL));
}

// Multiplies the differentiated loss by the loss scale, which is a state of the
// graph. fp16 has few exponents: without the factor small gradients would become
// zero. The update divides by it, and changes it when gradients overflow or when
// many steps were good.
static tt_val scale_loss(tt_builder *b, const tt_train_recipe *recipe,
                         tt_val loss, tt_optim_use *optim)
{
    const tt_shape scalar = {0};
    const tt_init first = {
        .kind = TT_INIT_CONST, .a = recipe->loss_scale, .of = TT_NONE};
    const tt_init zero = {.kind = TT_INIT_CONST, .of = TT_NONE};
    if (recipe->loss_scale == 0)
        return loss;
    const int scope = tt_scope_push(b, "loss_scale");
    optim->has_loss_scale = true;
    optim->loss_scale =
        tt_state(b, TT_ROLE_OPTIM, "factor", b->master, &scalar, first);
    optim->good_steps =
        tt_state(b, TT_ROLE_OPTIM, "good", b->master, &scalar, zero);
    const tt_val scaled = tt_mul(b, loss, optim->loss_scale);
    tt_scope_pop(b, scope);
    return scaled;
}

static tt_status check_trained(const tt_builder *b,
                               const tt_train_recipe *recipe)
{
    const tt_graph *g = b->graph;
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->value[v].role == TT_ROLE_PARAM &&
            !(recipe->is_frozen != NULL &&
              recipe->is_frozen(g->value[v].name, recipe->optim.user)))
            return TT_OK;
    return tt_fail(TT_ERR_ARG, recipe->is_frozen != NULL
                                   ? "train.freeze leaves no weight to train"
                                   : "the model has no weight to train");
}

static tt_status update_stages(tt_builder *b, const tt_train_recipe *recipe,
                               const tt_model_io *io, const losses *l,
                               tt_optim_use *optim)
{
    const int32_t n = recipe->cut.n_chunks;
    tt_val *count =
        tt_arena_alloc(b->graph->arena, n * (int64_t)sizeof(*count));
    if (count == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(add_stage_tallies(b, io, l, recipe->is_late ? 1 : n, count));
    for (int32_t i = 1; i < n && recipe->is_late; i++)
        count[i] = count[0];
    optim->n_stages = n;
    optim->stage_count = count;
    return tt_optim_apply(b, optim);
}

static tt_status build(tt_builder *b, const tt_train_recipe *recipe,
                       tt_model_io *io)
{
    tt_optim_use optim = recipe->optim;
    io->def = recipe->model;
    io->extra_loss = TT_NONE;
    TT_TRY(recipe->model->build(b, recipe->model_params, io));
    const losses l = add_loss(b, recipe, io);
    if (!recipe->is_endless) {
        const losses sums = add_tallies(b, io, &l);
        optim.loss = sums.loss;
        optim.count = sums.count;
    }
    tt_val learnt =
        tt_is(io->extra_loss) ? tt_add(b, l.loss, io->extra_loss) : l.loss;
    learnt = scale_loss(b, recipe, learnt, &optim);
    add_stop(b, recipe, io);
    TT_TRY(b->status);
    TT_TRY(check_trained(b, recipe));
    TT_TRY(tt_layers_assign(b, &recipe->cut));
    TT_TRY(tt_grad(b, learnt, recipe->is_frozen, recipe->optim.user));
    return recipe->is_endless ? update_stages(b, recipe, io, &l, &optim)
                              : tt_optim_apply(b, &optim);
}

static tt_status build_infer(tt_builder *b, const tt_train_recipe *recipe,
                             bool wants_logits, tt_model_io *io)
{
    io->def = recipe->model;
    b->is_training = false;
    b->reads_only = true;
    TT_TRY(recipe->model->build(b, recipe->model_params, io));
    const losses l = add_loss(b, recipe, io);
    (void)add_tallies(b, io, &l);
    add_stop(b, recipe, io);
    if (wants_logits)
        tt_output(b, "logits", io->logits);
    return tt_layers_assign(b, &recipe->cut);
}

static tt_status begin(tt_builder *b, const tt_train_recipe *recipe)
{
    TT_TRY(tt_builder_init(b, &tt_grad_ops_default));
    b->dtype = recipe->dtype;
    b->master = recipe->master;
    b->norm_group = recipe->bn_group;
    b->no_masters = recipe->no_masters;
    b->adds_terms_last = recipe->optim.exact;
    return TT_OK;
}

static tt_status finish(tt_builder *b, tt_status status, tt_graph **graph_out)
{
    if (status == TT_OK)
        status = tt_builder_take(b, graph_out);
    tt_builder_fini(b);
    return status;
}

tt_status tt_train_graph(const tt_train_recipe *recipe, tt_model_io *io,
                         tt_graph **graph_out)
{
    tt_builder b;
    TT_TRY(begin(&b, recipe));
    return finish(&b, build(&b, recipe, io), graph_out);
}

tt_status tt_inference_graph(const tt_train_recipe *recipe, bool wants_logits,
                             tt_model_io *io, tt_graph **graph_out)
{
    tt_builder b;
    TT_TRY(begin(&b, recipe));
    return finish(&b, build_infer(&b, recipe, wants_logits, io), graph_out);
}
