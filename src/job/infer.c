// infer - the forward graph of a job's model, with its own plan, executor and
// weights.
//
// Evaluation does not reuse the training plan. A forward graph without gradients
// frees activations at once, keeps weights only in the precision that kernels read,
// and uses running statistics and no dropout. The price is a second copy of the
// weights, which is filled from the training states before each evaluation
// (tt_inference_sync).

#include "job/infer.h"

#include "base/alloc.h"
#include "job/feed.h"
#include "job/internal.h"
#include "job/pipeline.h"

// ---- opening -------------------------------------------------------------

static void *make_input(const tt_plan *plan, const char *name)
{
    const tt_graph *g = plan->graph;
    const tt_type *type = &g->value[tt_graph_find(g, name).id].type;
    return tt_alloc(tt_feed_count(plan, name) * tt_dtype_bytes(type->dtype));
}

// Once training has started, its plan occupies a part of the device's memory.
static tt_status check_fit(const tt_job *job, const tt_plan *plan)
{
    const int64_t memory = tt_job_memory(job);
    if (memory <= 0 || job->exec == NULL || job->backend->def->memory == NULL)
        return tt_plan_check_fit(plan, memory, NULL, 0);
    const int64_t left = memory - job->plan->peak_bytes;
    const tt_status status =
        tt_plan_check_fit(plan, left > 0 ? left : 1, NULL, 0);
    return status == TT_OK
               ? status
               : tt_fail_context(status, "evaluating beside the training, "
                                         "which data.holdout=0 leaves out");
}

// The same chunks of the loss and the same partition as in training.
static tt_status rewrite(tt_inference *infer,
                         const tt_inference_options *options)
{
    const tt_job *job = infer->job;
    tt_chain chain = {0};
    if (!options->wants_logits)
        TT_TRY(tt__job_chunk(job, job->chunks, &infer->graph));
    return options->on_ranks
               ? tt__job_rewrite(job, &chain, job->distribution.zero,
                                 &infer->graph)
               : TT_OK;
}

static tt_status plan(tt_inference *infer, const tt_inference_options *options)
{
    tt_job *job = infer->job;
    tt_target *target = &job->backend->target;
    tt_train_recipe recipe = {
        .model = job->model,
        .model_params = job->model_params,
        .smoothing = job->options.smoothing,
        .cut = options->on_ranks ? tt__pipeline_cut(job) : (tt_layers_cut){0},
        .asks_to_stop = options->on_ranks && job->grid.ranks > 1};
    const tt_lower_options lower = {
        .rank = options->on_ranks && job->workers == 0 ? job->peers.rank : 0,
        .in_order = job->in_order};
    tt__recipe_precision(job->options.precision, &recipe);
    TT_TRY(tt_inference_graph(&recipe, options->wants_logits, &infer->io,
                              &infer->graph));
    const tt_shape *logits =
        &infer->graph->value[infer->io.logits.id].type.shape;
    infer->classes = tt_shape_dim(logits, logits->ndim - 1);
    TT_TRY(rewrite(infer, options));
    TT_TRY(tt_plan_lower(infer->graph, target, &lower, &infer->plan));
    return check_fit(job, infer->plan);
}

static tt_status open(tt_inference *infer, const tt_inference_options *options)
{
    tt_job *job = infer->job;
    infer->arena = tt_arena_create();
    if (infer->arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a model");
    infer->io = (tt_model_io){
        .batch = options->batch > 0 ? options->batch : job->options.micro,
        .seq = options->seq > 0 ? options->seq : job->io.seq,
        .image = job->io.image};
    TT_TRY(plan(infer, options));
    const bool has_ranks = options->on_ranks && job->grid.ranks > 1;
    tt_exec_options exec = {0};
    if (has_ranks && job->peers.wire != NULL)
        exec.wire = tt_comm_wire_of(job->peers.wire);
    if (!options->plan_only)
        TT_TRY(tt_exec_create(infer->plan, job->backend, &exec, &infer->exec));
    TT_TRY(tt_tensors_list(infer->graph, has_ranks ? &job->peers : NULL,
                           infer->arena, &infer->tensors));
    infer->x = make_input(infer->plan, "x");
    infer->y = make_input(infer->plan, "y");
    if (has_ranks)
        infer->stop = make_input(infer->plan, "stop");
    return infer->x != NULL && infer->y != NULL &&
                   (!has_ranks || infer->stop != NULL)
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for a batch");
}

tt_status tt_inference_open(tt_job *job, const tt_inference_options *options,
                            tt_inference **infer_out)
{
    tt_inference *infer = tt_alloc(sizeof *infer);
    if (infer == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a model");
    infer->job = job;
    const tt_status status = open(infer, options);
    if (status != TT_OK)
        tt_inference_close(infer);
    else
        *infer_out = infer;
    return status;
}

void tt_inference_close(tt_inference *infer)
{
    if (infer == NULL)
        return;
    tt_exec_destroy(infer->exec);
    tt_plan_destroy(infer->plan);
    tt_graph_destroy(infer->graph);
    tt_free(infer->x);
    tt_free(infer->y);
    tt_free(infer->stop);
    tt_arena_destroy(infer->arena);
    tt_free(infer);
}

// ---- weights -------------------------------------------------------------

tt_status tt_inference_sync(tt_inference *infer, const tt_job *job,
                            bool use_ema)
{
    if (job->exec == NULL)
        return tt_fail(TT_ERR_STATE, "there are no weights: start the job");
    return tt_tensors_copy(job->exec, &job->tensors, infer->exec,
                           &infer->tensors, use_ema);
}

tt_status tt_inference_load(tt_inference *infer, const char *path,
                            const tt_weights_options *options, tt_str *notes)
{
    tt_weights *weights = NULL;
    tt_weights_fit fit = {0};
    tt_str own = {0};
    if (!tt_tensors_are_first(&infer->tensors))
        return tt_weights_receive(infer->exec, &infer->tensors);
    tt_status status = tt_weights_open(path, options, notes, &weights);
    if (status == TT_OK)
        status =
            tt_weights_load(weights, infer->exec, &infer->tensors, &own, &fit);
    if (status == TT_OK && fit.n_missing > 0)
        status = tt_fail(TT_ERR_ARG, "%s does not fit the model: %s", path,
                         tt_str_text(&own));
    if (status == TT_OK && notes != NULL && fit.n_extra > 0)
        tt_str_add(notes, tt_str_text(&own));
    tt_str_fini(&own);
    tt_weights_close(weights);
    return status;
}

// ---- a batch -------------------------------------------------------------

static tt_status output(tt_inference *infer, const char *name,
                        double *value_out)
{
    return tt_exec_get_scalar(
        infer->exec, tt_graph_output_find(infer->graph, name), value_out);
}

tt_status tt_inference_batch(tt_inference *infer, const void *x, const void *y,
                             tt_inference_result *result_out)
{
    tt_inference_result r = {0};
    const tt_val labels = tt_graph_find(infer->graph, "y");
    TT_TRY(tt_exec_write(infer->exec, tt_graph_find(infer->graph, "x"), x));
    const tt_type *type = &infer->graph->value[labels.id].type;
    const int64_t n = tt_feed_count(infer->plan, "y");
    double stop = 0;
    // Without labels every label is -1, so that the loss leaves all of them out.
    if (y == NULL)
        for (int64_t i = 0; i < n; i++)
            tt_dtype_store(type->dtype, infer->y, i, -1);
    else if (y != infer->y)
        tt_tensor_convert(type->dtype, y, type->dtype, infer->y, n);
    tt_feed_leave_out(infer->plan, infer->y);
    TT_TRY(tt_exec_write(infer->exec, labels, infer->y));
    if (infer->stop != NULL)
        TT_TRY(
            tt_feed_stop(infer->exec, infer->stop, infer->wants_stop ? 1 : 0));
    TT_TRY(tt_exec_run(infer->exec, NULL, NULL));
    TT_TRY(output(infer, "loss", &r.loss));
    TT_TRY(output(infer, "count", &r.count));
    TT_TRY(output(infer, "correct", &r.correct));
    if (infer->stop != NULL)
        TT_TRY(output(infer, "stop", &stop));
    r.stop = infer->stop != NULL ? stop != 0 : infer->wants_stop;
    *result_out = r;
    return TT_OK;
}

tt_status tt_inference_logits(tt_inference *infer, float *out)
{
    const tt_val v = tt_graph_output_find(infer->graph, "logits");
    if (!tt_is(v))
        return tt_fail(TT_ERR_STATE, "the logits were not asked for");
    const tt_type *type = &infer->graph->value[v.id].type;
    const int64_t n = tt_shape_count(&type->shape);
    if (type->dtype == TT_F32)
        return tt_exec_read(infer->exec, v, out);
    void *raw = tt_alloc(n * tt_dtype_bytes(type->dtype));
    if (raw == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for logits");
    const tt_status status = tt_exec_read(infer->exec, v, raw);
    if (status == TT_OK)
        tt_tensor_convert(type->dtype, raw, TT_F32, out, n);
    tt_free(raw);
    return status;
}
