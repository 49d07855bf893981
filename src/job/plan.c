// plan - from a configured job to the plan of this rank.
//
//   tt__pipeline_make   the schedule, if there are stages
//   tt_train_graph      model, loss, gradient, update as one graph
//   check               patterns and layout rules against the graph's real names
//   chunk               the loss in pieces, where that was asked for
//   fp8, recompute,     rewrites of the graph, see `rewrite` for the order
//   fuse, offload,
//   blocks, partition   the graph as each rank sees it, with collectives
//   tt_plan_lower       kernels, memory, buckets and flights of this rank
//
// The graph is the same on all ranks; only the last step depends on the rank. That
// is why a rank can plan for another (tt_job_plan_rank), and why `tutti plan` needs
// no other ranks at all.
//
// A variant (job/variant.h) is the set of choices that save memory at the price of
// time. The same function plans the job and the alternatives that fit.c offers.

#include "base/alloc.h"
#include "config/layout_check.h"
#include "job/ages.h"
#include "job/dynamic/dynamic.h"
#include "job/endless.h"
#include "job/exact.h"
#include "job/exchange.h"
#include "job/internal.h"
#include "job/job.h"
#include "job/pipeline.h"
#include "job/replicas/replicas.h"
#include "job/same_order.h"
#include "job/train_graph.h"
#include "job/variant.h"
#include "ops/ops.h"
#include "pass/copies.h"
#include "pass/fuse.h"
#include "pass/offload.h"
#include "pass/partition/partition.h"

void tt__recipe_precision(int precision, tt_train_recipe *recipe)
{
    static const tt_dtype dtype[] = {[TT_PRECISION_FP32] = TT_F32,
                                     [TT_PRECISION_BF16] = TT_BF16,
                                     [TT_PRECISION_FP16] = TT_F16,
                                     [TT_PRECISION_FP64] = TT_F64,
                                     [TT_PRECISION_FP8] = TT_BF16};
    recipe->dtype = dtype[precision];
    recipe->master = precision == TT_PRECISION_FP64 ? TT_F64 : TT_F32;
}

// ---- which weights -------------------------------------------------------

static bool is_decayed(const char *name, const tt_shape *shape, void *user)
{
    const tt_job *job = user;
    const bool is_left_alone = tt_globs_find(&job->no_decay, name) != NULL;
    return !is_left_alone &&
           (job->optim_params.decay == TT_DECAY_ALL || shape->ndim >= 2);
}

static bool is_frozen(const char *name, void *user)
{
    const tt_job *job = user;
    return tt_globs_find(&job->freeze, name) != NULL;
}

static double rate(const char *name, void *user)
{
    const tt_job *job = user;
    const tt_glob *glob = tt_globs_find(&job->lr_groups, name);
    return glob != NULL ? glob->factor : 1;
}

tt__variant tt__variant_of(const tt_job *job)
{
    return (tt__variant){job->options.accumulate,
                         job->options.precision,
                         job->options.recompute,
                         job->distribution.zero,
                         job->chunks,
                         job->distribution.offload};
}

// Whether there is an update; a graph that only evaluates exchanges nothing.
static bool is_trained(const tt_graph *graph)
{
    for (int32_t n = graph->n_nodes - 1; n >= 0; n--)
        if (graph->node[n].phase == TT_UPDATE)
            return true;
    return false;
}

// Adds the partition over the job's ranks. One rank needs none, except in exact
// mode, where blocks are cut as if they were ranks (job/exact.c), and where it carries
// replicas (job/exchange.c).
static tt_status add_partition(const tt_job *job, int64_t zero,
                               const tt_graph *graph, tt_chain *chain)
{
    tt_partition_params params = {0};
    const int64_t micro =
        tt_shape_dim(&graph->value[tt_graph_find(graph, "x").id].type.shape, 0);
    const bool differs = is_trained(graph) && tt__job_replicas_count(job) > 1;
    const int64_t replicas =
        is_trained(graph) ? tt__job_codes_replicas(job) : 1;
    const int64_t blocks =
        replicas > 1 ? replicas : tt__exact_blocks(job, micro);
    const bool is_folded = blocks > 1;
    if (job->grid.ranks == 1 && !is_folded && !differs)
        return TT_OK;
    TT_TRY(tt_opt_defaults(tt_pass_partition.options, &params, job->arena));
    params.mesh = job->grid.mesh;
    params.rules = &job->grid.layout;
    params.zigzag = tt_distribution_zigzag(&job->distribution, graph);
    params.wide = tt_distribution_is_wide(&job->distribution, graph);
    params.way =
        job->distribution.attention == 1 ? TT_WAY_EXCHANGE : TT_WAY_RING;
    params.zero = job->grid.size[TT_AXIS_DATA] > 1 ? zero : 0;
    params.stage_outputs =
        tt_is(tt_graph_output_find(graph, "loss.0")); // see train_graph.h
    if (differs) {
        TT_TRY(tt__job_replicas_partition(job, &params, chain));
    } else if (is_folded) {
        TT_TRY(tt__exact_partition(job, blocks, &params));
        tt__exact_fold(job, blocks, micro, chain);
    }
    if (replicas > 1) {
        params.own_gradients = true;
        tt__job_codes_add(job, chain);
    }
    tt_chain_add(chain, &tt_pass_partition, &params);
    // An evaluation is about the weights: it sends numbers as they are.
    if (is_trained(graph)) {
        tt__job_layer_codes_add(job, chain);
        tt__job_factors_add(job, job->options.batch / micro, chain);
    }
    return TT_OK;
}

tt_status tt__job_rewrite(const tt_job *job, tt_chain *chain, int64_t zero,
                          tt_graph **graph)
{
    TT_TRY(add_partition(job, zero, *graph, chain));
    return tt_chain_apply(chain, graph);
}

static bool target_wants(void *user, const tt_op_def *op)
{
    tt_target *target = user;
    return target->wants(target, op);
}

// Fuses what the device's kernels do in one pass over memory. Not in exact mode: a
// fused kernel may add in another order.
static void add_fuse(const tt_job *job, tt_chain *chain)
{
    const tt_fuse_params params = {target_wants, &job->backend->target};
    if (!job->options.exact && tt_fuse_wants_any(&params))
        tt_chain_add(chain, &tt_pass_fuse, &params);
}

// Moves values to the host's memory. An error where the device computes in it.
static tt_status add_offload(const tt_job *job, int what, tt_chain *chain)
{
    const tt_offload_params params = {
        .optimiser = what == TT_OFFLOAD_OPTIMISER || what == TT_OFFLOAD_ALL,
        .activations =
            what == TT_OFFLOAD_ACTIVATIONS || what == TT_OFFLOAD_ALL};
    if (what == TT_OFFLOAD_NONE)
        return TT_OK;
    if (job->backend->def->memory == NULL)
        return tt_fail(TT_ERR_ARG,
                       "offload=%s: device=%s computes in the host's memory; "
                       "recompute=full or loss.chunks=8 save some of it",
                       tt_offload_name[what], job->options.device);
    tt_chain_add(chain, &tt_pass_offload, &params);
    return TT_OK;
}

static tt_status rewrite(const tt_job *job, const tt__variant *v,
                         const tt_pipe *pipe, tt_graph **graph)
{
    tt_chain chain = {0};
    if (pipe != NULL && pipe->rule == TT_PIPE_PREDICT)
        tt_chain_add(&chain, &tt_pass_predict, NULL);
    if (pipe != NULL && pipe->n_copies > 1)
        tt_chain_add(&chain, &tt_pass_copies,
                     &(tt_copies_params){pipe->n_chunks});
    if (v->precision == TT_PRECISION_FP8)
        tt_chain_add(&chain, &tt_pass_fp8, NULL);
    if (v->recompute != 0)
        tt_chain_add(&chain, &tt_pass_recompute, &v->recompute);
    tt__job_rows_add(job, v->accumulate, &chain);
    add_fuse(job, &chain);
    TT_TRY(add_offload(job, v->offload, &chain));
    return tt__job_rewrite(job, &chain, v->zero, graph);
}

static tt_train_recipe recipe_of(tt_job *job)
{
    const bool is_fp16 = job->options.precision == TT_PRECISION_FP16;
    tt_optim_params params = job->optim_params.params;
    params.momentum = tt__dynamic_momentum(job);
    return (tt_train_recipe){
        .model = job->model,
        .model_params = job->model_params,
        .optim = {.def = job->optim,
                  .params = params,
                  .clip = job->workers > 0 ? 0 : job->optim_params.clip,
                  .is_decayed = is_decayed,
                  .rate = rate,
                  .user = job,
                  .exact = job->options.exact,
                  .ema = job->train.ema,
                  .guard = job->guard && job->workers == 0,
                  .scaling = {job->train.loss_scale_growth}},
        .smoothing = job->options.smoothing,
        .no_masters = !job->optim_params.master,
        .loss_scale = is_fp16 ? job->train.loss_scale : 0,
        .bn_group = job->train.bn_group,
        .cut = tt__pipeline_cut(job),
        .asks_to_stop = job->grid.ranks > 1 && tt__job_replicas_count(job) == 1,
        .is_frozen = job->freeze.n > 0 ? is_frozen : NULL};
}

tt_status tt__planned_lower(const tt_job *job, const tt__planned *p,
                            int32_t rank, tt_plan **plan_out)
{
    tt_lower_options options = {.rank = job->workers > 0 ? 0 : rank,
                                .n_micro = (int32_t)p->accumulate,
                                .bucket_bytes = job->exchange.bucket > 0
                                                    ? job->exchange.bucket
                                                    : job->peers.bucket,
                                .order = (tt_flight_order)job->exchange.order,
                                .in_order = job->in_order};
    tt_lower_row *row = NULL;
    tt_status status =
        tt__pipeline_rows(p->pipe, p->graph, rank, &options, &row);
    if (status == TT_OK && row != NULL)
        status = tt__ages_rows(job, p->pipe, row, options.n_rows);
    if (status == TT_OK)
        status =
            tt_plan_lower(p->graph, &job->backend->target, &options, plan_out);
    tt_free(row);
    return status == TT_ERR_ARG && p->pipe != NULL
               ? tt_fail_context(status, "pipe.schedule=%s", p->pipe->name)
               : status;
}

// Asks for what is chosen where the layers are cut.
static tt_status want_cut(const tt_job *job, tt_layers_cut *cut, tt__planned *p)
{
    if (cut->n_chunks <= 1)
        return TT_OK;
    p->cut =
        tt_arena_alloc(job->arena, cut->n_chunks * (int64_t)sizeof *p->cut);
    cut->chunk = p->cut;
    cut->arena = job->arena;
    return p->cut != NULL ? TT_OK : TT_ERR_NOMEM;
}

// Stages do not wait for each other, neither for a verdict about the step nor to ask
// whether one wants to stop.
static void let_stages_go(tt_train_recipe *recipe, bool is_late)
{
    recipe->is_endless = true;
    recipe->is_late = is_late;
    recipe->asks_to_stop = false;
    recipe->optim.guard = false;
}

tt_status tt__variant_plan(tt_job *job, const tt__variant *v, tt__planned *out)
{
    tt__planned p = {.io = job->io, .accumulate = v->accumulate};
    tt_train_recipe recipe = recipe_of(job);
    tt__recipe_precision(v->precision, &recipe);
    const int64_t micro = job->options.batch / v->accumulate;
    p.io.batch = micro / tt__job_replicas_count(job);
    p.io.batch /= tt_job_worker_parts(job);
    TT_TRY(want_cut(job, &recipe.cut, &p));
    TT_TRY(tt__pipeline_make(job, v->accumulate, &p.pipe));
    if (tt__is_endless(p.pipe))
        let_stages_go(&recipe, tt_job_is_late(job));
    tt_status status =
        tt__ages_momentum(job, p.pipe, &recipe.optim.stage_momentum);
    if (status == TT_OK)
        status = tt_train_graph(&recipe, &p.io, &p.graph);
    if (status == TT_OK && recipe.is_endless)
        status = tt__endless_check_graph(job, p.pipe, p.graph);
    if (status == TT_OK)
        status = tt__pipeline_check_graph(p.pipe, p.graph);
    if (status == TT_OK) {
        const tt_shape *logits = &p.graph->value[p.io.logits.id].type.shape;
        p.classes = tt_shape_dim(logits, logits->ndim - 1);
        status = tt__job_check_globs(job, p.graph);
    }
    if (status == TT_OK)
        status = tt_distribution_check(&job->distribution, &job->grid, p.graph,
                                       job->options.model);
    if (status == TT_OK)
        status = tt__job_chunk(job, v->chunks, &p.graph);
    if (status == TT_OK) {
        p.chunks = tt__chunks_in(p.graph);
        status = rewrite(job, v, p.pipe, &p.graph);
    }
    if (status == TT_OK)
        status = tt__planned_lower(job, &p, job->peers.rank, &p.plan);
    p.io.batch = micro;
    if (status != TT_OK)
        tt__planned_free(&p);
    else
        *out = p;
    return status;
}

void tt__planned_free(tt__planned *p)
{
    tt_plan_destroy(p->plan);
    tt_graph_destroy(p->graph);
    tt_pipe_destroy(p->pipe);
    *p = (tt__planned){0};
}

// Ranks with parts of other shapes may plan their collectives in another order,
// which would deadlock. Then all ranks plan again, with collectives strictly one
// after another. A rank whose plan has failed takes part in the comparison too: the
// others wait for it.
static tt_status make_alike(tt_job *job, tt_status status, tt__planned *p)
{
    bool alike = true;
    const tt_status asked =
        tt__plans_alike(job, status == TT_OK ? p : NULL, &alike);
    if (status != TT_OK)
        return status;
    if (asked == TT_OK && !alike) {
        tt_plan_destroy(p->plan);
        p->plan = NULL;
        job->in_order = true;
        status = tt__planned_lower(job, p, job->peers.rank, &p->plan);
    }
    status = status == TT_OK ? asked : status;
    if (status != TT_OK)
        tt__planned_free(p);
    return status;
}

static bool is_too_large(const tt_job *job, const tt__planned *p)
{
    const int64_t memory = tt_job_memory(job);
    return memory > 0 && p->plan->peak_bytes > memory;
}

// If the plan does not fit and loss.chunks was not set, doubles the chunks until it
// fits. If no number is enough the chunks stay: then other values are too large,
// and the chunks have done their part. Only for one rank outside exact mode, since
// chunks change the order of sums.
static void use_chunks(tt_job *job, tt__planned *p)
{
    enum { MOST = 64 };
    const bool may = job->distribution.chunks == 0 && job->peers.size == 1 &&
                     !job->options.exact;
    for (int64_t n = TT__USUAL_CHUNKS; may && is_too_large(job, p) && n <= MOST;
         n *= 2) {
        tt__variant v = tt__variant_of(job);
        tt__planned fewer;
        v.chunks = n;
        if (tt__variant_plan(job, &v, &fewer) != TT_OK)
            return;
        tt__planned_free(p);
        *p = fewer;
    }
}

tt_status tt_job_plan(tt_job *job)
{
    tt__planned p = {0};
    if (job->plan != NULL)
        return TT_OK;
    // Gradients that overflow fp16 are expected; the guard skips such a step.
    job->guard = job->guard || job->options.precision == TT_PRECISION_FP16;
    job->chunks = job->distribution.chunks > 0 ? job->distribution.chunks : 1;
    const tt__variant now = tt__variant_of(job);
    TT_TRY(make_alike(job, tt__variant_plan(job, &now, &p), &p));
    use_chunks(job, &p);
    job->pipe = p.pipe;
    job->cut = p.cut;
    job->graph = p.graph;
    job->plan = p.plan;
    job->io = p.io;
    job->classes = p.classes;
    job->chunks = p.chunks;
    return tt_tensors_list(job->graph, &job->peers, job->arena, &job->tensors);
}

tt_status tt_job_plan_rank(const tt_job *job, int32_t rank, tt_plan **plan_out)
{
    const tt__planned p = {.pipe = job->pipe,
                           .graph = job->graph,
                           .accumulate = job->options.accumulate};
    return tt__planned_lower(job, &p, rank, plan_out);
}
