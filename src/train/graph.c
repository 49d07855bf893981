// graph - puts loss, gradient and optimiser behind a model.

#include "train/graph.h"

#include "graph/grad.h"
#include "ops/gradops.h"
#include "ops/ops.h"

static tt_val tally(tt_builder *b, const char *name, tt_val v)
{
    const tt_val sum = tt_call(b, &tt_op_tally, NULL, &v, 1, NULL);
    tt_output(b, name, sum);
    return sum;
}

static void add_loss(tt_builder *b, const tt_train_recipe *recipe,
                     const tt_model_io *io, tt_val *loss_out, tt_val *count_out)
{
    tt_val out[TT_MAX_OUT];
    const tt_val in[] = {io->logits, io->labels};
    const int scope = tt_scope_push(b, "loss");
    *loss_out = tt_callf(b, &tt_op_cross_entropy, in, 2, "smoothing=%.17g",
                         recipe->smoothing);
    tt_outputs_of(b, *loss_out, out);
    (void)tally(b, "loss", out[0]);
    *count_out = tally(b, "count", out[1]);
    (void)tally(b, "correct", tt_call(b, &tt_op_correct, NULL, in, 2, NULL));
    tt_scope_pop(b, scope);
}

static tt_status build(tt_builder *b, const tt_train_recipe *recipe,
                       tt_model_io *io)
{
    tt_val loss = TT_NONE;
    tt_optim_use optim = recipe->optim;
    io->def = recipe->model;
    TT_TRY(recipe->model->build(b, recipe->model_params, io));
    add_loss(b, recipe, io, &loss, &optim.count);
    TT_TRY(b->status);
    TT_TRY(tt_grad(b, loss, NULL, NULL));
    return tt_optim_apply(b, &optim);
}

tt_status tt_train_graph(const tt_train_recipe *recipe, tt_model_io *io,
                         tt_graph **graph_out)
{
    tt_builder b;
    TT_TRY(tt_builder_init(&b, &tt_grad_ops_default));
    b.dtype = recipe->dtype;
    b.master = recipe->master;
    tt_status status = build(&b, recipe, io);
    if (status == TT_OK)
        status = tt_builder_take(&b, graph_out);
    tt_builder_fini(&b);
    return status;
}
