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
    tt_val loss;       // of one micro-batch
    tt_val sum, count; // over the step
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
    l.sum = tally(b, "loss", out[0]);
    l.count = tally(b, "count", out[1]);
    (void)tally(b, "correct", tt_call(b, &tt_op_correct, NULL, in, 2, NULL));
    tt_scope_pop(b, scope);
    return l;
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

static tt_status build(tt_builder *b, const tt_train_recipe *recipe,
                       tt_model_io *io)
{
    tt_optim_use optim = recipe->optim;
    io->def = recipe->model;
    io->extra_loss = TT_NONE;
    TT_TRY(recipe->model->build(b, recipe->model_params, io));
    const losses l = add_loss(b, recipe, io);
    tt_val learnt =
        tt_is(io->extra_loss) ? tt_add(b, l.loss, io->extra_loss) : l.loss;
    learnt = scale_loss(b, recipe, learnt, &optim);
    add_stop(b, recipe, io);
    optim.loss = l.sum;
    optim.count = l.count;
    TT_TRY(b->status);
    TT_TRY(check_trained(b, recipe));
    TT_TRY(tt_layers_assign(b, &recipe->cut));
    TT_TRY(tt_grad(b, learnt, recipe->is_frozen, recipe->optim.user));
    return tt_optim_apply(b, &optim);
}

static tt_status build_infer(tt_builder *b, const tt_train_recipe *recipe,
                             bool wants_logits, tt_model_io *io)
{
    io->def = recipe->model;
    b->is_training = false;
    b->reads_only = true;
    TT_TRY(recipe->model->build(b, recipe->model_params, io));
    (void)add_loss(b, recipe, io);
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
