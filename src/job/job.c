// job - starting a job, and one training step.
//
// A step is one run of the plan: for each micro-batch its inputs, forward and
// backward; then the update. Everything that changes from step to step enters the
// graph as a scalar ("lr", "step", "seed", ...), so the plan stays the same and a
// GPU can replay a recorded CUDA graph.
//
// The guard. With job->guard, a step whose loss is not finite or is above `limit`
// must change nothing. The update operators check that themselves. Buffers (batch
// norm's statistics) are written in the forward pass, before the loss is known, so
// they are saved before the step and restored if it was skipped.
//
// Stopping together. Only some ranks get a signal, but all must leave the loop
// after the same step. A separate collective per step would cost latency. So each
// rank writes its wish into an input "stop" with one number per sample, and the sum
// comes back with the losses, in the same collective.

#include "job/job.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "config/pace.h"
#include "job/ahead.h"
#include "job/dynamic/dynamic.h"
#include "job/endless.h"
#include "job/feed.h"
#include "job/kept.h"
#include "job/replicas/replicas.h"
#include "plan/seconds.h"
#include "weights/weights.h"

#include <stdio.h>
#include <string.h>

void tt_job_close(tt_job *job)
{
    if (job == NULL)
        return;
    tt__dynamic_close(job->dynamic);
    tt_exec_destroy(job->exec);
    if (job->room != NULL)
        tt_comm_wire_take_back(job->peers.wire, TT_LEND_JOB);
    tt_plan_destroy(job->plan);
    tt_graph_destroy(job->graph);
    tt_pipe_destroy(job->pipe);
    tt_backend_close(job->backend);
    tt_free(job->x);
    tt_free(job->y);
    tt_free(job->stop);
    tt__kept_free(&job->kept);
    tt_arena_destroy(job->arena);
    tt_free(job);
}

static void *make_input(const tt_plan *plan, const char *name)
{
    const tt_val v = tt_graph_find(plan->graph, name);
    const tt_type *type = &plan->graph->value[v.id].type;
    return tt_alloc(tt_feed_count(plan, name) * tt_dtype_bytes(type->dtype));
}

void tt_job_samples(const tt_job *job, int64_t *first_out, int64_t *n_out)
{
    const tt_graph *g = job->graph;
    tt_local x;
    if (job->workers > 0) { // every rank evaluates all of a micro-batch
        *first_out = 0;
        *n_out = job->options.micro;
        return;
    }
    tt_local_of(&g->value[tt_graph_find(g, "x").id].type, &g->mesh,
                job->peers.rank, &x);
    *first_out = 0;
    *n_out = 1;
    for (int f = 0; f < 1 + tt__job_replicas_dims(job); f++) {
        // [batch ...], [replica batch ...] or [group replica batch ...]
        *first_out = *first_out * x.global[f] + x.origin[f];
        *n_out *= x.shape.factor[f].size;
    }
}

// ---- what a step changes before the guard can decide, or without asking it ----

// Buffers change in the forward pass; residuals and other states of a codec where it
// encodes.
static bool is_unguarded(const tt_job *job, const tt_tensor *t)
{
    if (job->replicas.n > 0)
        return tt__job_replicas_is_buffer(job, t);
    return t->role == TT_TENSOR_BUFFER || strstr(t->name, ".codec.") != NULL;
}

static tt_status keep_buffers(const tt_job *job, bool is_back)
{
    const bool guards = job->guard && !tt__is_endless(job->pipe);
    for (int64_t i = 0; guards && i < job->tensors.n; i++) {
        const tt_tensor *t = &job->tensors.v[i];
        if (is_unguarded(job, t) && tt_tensor_is_here(job->exec, t))
            TT_TRY(is_back ? tt_exec_restore_value(job->exec, t->val)
                           : tt_exec_save_value(job->exec, t->val));
    }
    return TT_OK;
}

static tt_status make_inputs(tt_job *job)
{
    job->x = make_input(job->plan, "x");
    job->y = make_input(job->plan, "y");
    const bool stops = tt_is(tt_graph_find(job->graph, "stop"));
    if (stops)
        job->stop = make_input(job->plan, "stop");
    return job->x != NULL && job->y != NULL && (!stops || job->stop != NULL)
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for a batch");
}

// The modelled seconds of this rank's segments, at the speed that it shall have.
static tt_status make_pace(tt_job *job)
{
    const tt_plan *plan = job->plan;
    double speed = 1;
    double *pace = NULL;
    if (!tt_pace_is_set(job->distribution.pace) || job->workers > 0)
        return TT_OK;
    TT_TRY(tt_pace_speed(job->distribution.pace, job->peers.size,
                         job->peers.rank, &speed));
    pace = tt_arena_alloc(job->arena,
                          (plan->n_segments + 1) * (int64_t)sizeof(*pace));
    if (pace == NULL)
        return TT_ERR_NOMEM;
    for (int32_t i = 0; i < plan->n_segments; i++)
        pace[i] = tt_plan_seconds(plan, i) / speed;
    job->pace = pace;
    return TT_OK;
}

tt_status tt_job_start(tt_job *job, const tt_exec_options *options)
{
    tt_exec_options own = {0};
    if (options != NULL)
        own = *options;
    if (job->peers.size > 1 && job->peers.wire == NULL)
        return tt_fail(TT_ERR_ARG,
                       "the mesh %s wants %d ranks and there is one: start "
                       "them with -n %d",
                       job->grid.mesh, job->peers.size, job->peers.size);
    if (job->peers.size > 1 && job->options.exact)
        tt_comm_wire_exact(job->peers.wire);
    if (job->grid.ranks > 1)
        own.wire = tt_comm_wire_of(job->peers.wire);
    TT_TRY(tt_job_plan(job));
    TT_TRY(tt_job_check_fit(job));
    TT_TRY(make_pace(job));
    own.rows = job->pipe != NULL;
    own.pace = job->pace;
    TT_TRY(tt__wall_job_room(job));
    own.room = job->room;
    TT_TRY(tt_exec_create(job->plan, job->backend, &own, &job->exec));
    TT_TRY(make_inputs(job));
    if (tt__is_endless(job->pipe))
        tt_exec_before_rows(job->exec, tt__endless_row, job);
    job->step = 0;
    job->stretch = (tt_stretch){0};
    job->ahead = (tt_ahead){0};
    TT_TRY(tt_exec_init_state(job->exec, (uint64_t)job->options.seed));
    return tt__job_replicas_start(job);
}

tt_status tt_job_init_from(tt_job *job, tt_str *notes)
{
    tt_weights *weights = NULL;
    tt_weights_fit fit;
    if (job->train.from[0] == '\0')
        return TT_OK;
    if (!tt_peers_is_first(&job->peers))
        return tt_weights_receive(job->exec, &job->tensors);
    tt_status status = tt_weights_open(
        job->train.from, &(tt_weights_options){.skip = &job->skip}, notes,
        &weights);
    if (status == TT_OK)
        status =
            tt_weights_load(weights, job->exec, &job->tensors, notes, &fit);
    else
        status = tt_peers_follow(&job->peers, "init.from", status);
    tt_weights_close(weights);
    return status == TT_OK ? status : tt_fail_context(status, "init.from");
}

tt_status tt_job_check_from(const tt_job *job, tt_str *notes)
{
    tt_weights *weights = NULL;
    if (job->train.from[0] == '\0')
        return TT_OK;
    tt_status status = tt_weights_open(
        job->train.from, &(tt_weights_options){.skip = &job->skip}, notes,
        &weights);
    if (status == TT_OK)
        status = tt_weights_check(weights, job->graph, &job->tensors, notes);
    tt_weights_close(weights);
    return status == TT_OK ? status : tt_fail_context(status, "init.from");
}

static tt_status set_scalar(tt_job *job, const char *name, double value)
{
    if (!tt_is(tt_graph_find(job->graph, name)))
        return TT_OK;
    return tt_exec_set_scalar(job->exec, name, value);
}

// All results are read in one call: each read waits for the device.
enum { LOSS, COUNT, CORRECT, NORM, SKIPPED, STOP, LOSS_SCALE, N_OUTPUTS };

static tt_status get_outputs(tt_job *job, double value_out[N_OUTPUTS])
{
    static const char *const name[] = {"loss",    "count", "correct",   "norm",
                                       "skipped", "stop",  "loss_scale"};
    const tt_mesh *mesh = &job->graph->mesh;
    const int pipe = tt_mesh_pipe(mesh);
    tt_val v[N_OUTPUTS];
    for (int i = 0; i < N_OUTPUTS; i++) {
        char own[32];
        snprintf(own, sizeof own, "%s.%d", name[i],
                 pipe < 0 ? 0 : tt_mesh_coord(mesh, job->peers.rank, pipe));
        v[i] = tt_graph_output_find(job->graph,
                                    tt__is_endless(job->pipe) ? own : name[i]);
    }
    return tt_exec_get_scalars(job->exec, v, N_OUTPUTS, value_out);
}

// What a rank writes for each of its samples, so that the sum tells two wishes
// apart. The wish to save comes from rank 0 alone: over all samples of a step it
// adds up to at most save_wish. A wish to stop adds up to at least 1.
static const double save_wish = 0.5;

static double wish_of(const tt_job *job)
{
    if (job->wants_stop)
        return 1;
    return job->wants_save ? save_wish / (double)job->options.batch : 0;
}

static tt_status feed_one(void *user, tt_exec *exec, int32_t micro)
{
    const tt__feeding *f = user;
    tt_job *job = f->job;
    const int64_t in_step = micro % job->options.accumulate;
    if (job->replicas.n > 0)
        TT_TRY(tt__job_replicas_feed(job, micro));
    else
        TT_TRY(
            set_scalar(job, "first_sample", (double)(in_step * job->io.batch)));
    if (job->stop != NULL)
        TT_TRY(tt_feed_stop(exec, job->stop, wish_of(job)));
    return f->feed == NULL ? TT_OK : tt__feed_now(f, micro);
}

const tt_coll_call tt_job_stop_call = {
    .kind = TT_ALL_REDUCE, .fold = {TT_FOLD_MAX, TT_NUM_I32}, .count = 1};

bool tt_job_asks(const tt_job *job)
{
    return job->workers == 0 &&
           (job->peers.size != job->grid.data || tt_job_is_late(job));
}

bool tt_job_is_drained(const tt_job *job)
{
    return job->stretch.left == 0;
}

enum { NO_WISH, WISH_SAVE, WISH_STOP };

// What all ranks do after this step. Ranks with different samples have heard each
// other through the sum. Ranks that work on the same samples (tensor, seq) are not
// summed, and a signal may have reached only some of them, so they need one small
// all-reduce.
static tt_status agree(const tt_job *job, double heard, int32_t *wish_out)
{
    int32_t own = job->wants_stop   ? WISH_STOP
                  : job->wants_save ? WISH_SAVE
                                    : NO_WISH;
    int32_t wish = heard > 0.75 ? WISH_STOP : heard > 0 ? WISH_SAVE : NO_WISH;
    *wish_out = job->peers.size > 1 ? wish : own;
    if (!tt_job_asks(job) || !tt_job_is_drained(job))
        return TT_OK;
    wish = wish > own ? wish : own;
    tt_coll_call call = tt_job_stop_call;
    call.in = call.out = &wish;
    TT_TRY(tt_comm_wire_call(job->peers.wire, "stop", &call));
    *wish_out = wish;
    return TT_OK;
}

tt_status tt_job_step(tt_job *job, tt_job_feed_fn *feed, void *user,
                      tt_step_result *result_out)
{
    tt__feeding f = {job, feed, user};
    double out[N_OUTPUTS];
    if (job->workers > 0)
        return tt__dynamic_step(job, feed, user, result_out);
    TT_TRY(keep_buffers(job, false));
    TT_TRY(tt__endless_begin(job));
    TT_TRY(set_scalar(job, "lr", job->lr));
    TT_TRY(set_scalar(job, "limit", job->limit));
    TT_TRY(set_scalar(job, "step", (double)(job->step + 1)));
    TT_TRY(set_scalar(job, "skip", 0));
    TT_TRY(set_scalar(job, "seed", (double)job->options.seed));
    TT_TRY(set_scalar(job, "samples", (double)job->options.batch));
    if (job->peers.wire != NULL)
        tt_comm_wire_step(job->peers.wire, job->step + 1);
    job->kept.next = 0;
    TT_TRY(tt_exec_run(job->exec, feed_one, &f));
    job->step++;
    job->stretch.lr_before = job->lr;
    job->stretch.left -= job->stretch.left > 0 ? 1 : 0;
    tt__feed_ahead(&f); // while the device is still at work
    if (job->replicas.n > 0)
        return tt__job_replicas_follow(job, result_out);
    TT_TRY(get_outputs(job, out));
    const double count = out[COUNT];
    tt_step_result result = {.loss = count > 0 ? out[LOSS] / count : out[LOSS],
                             .count = count,
                             .correct = out[CORRECT],
                             .norm = out[NORM],
                             .skipped = out[SKIPPED] != 0,
                             .loss_scale = out[LOSS_SCALE],
                             .steps = 1};
    int32_t wish = NO_WISH;
    TT_TRY(agree(job, out[STOP], &wish));
    result.stop = wish == WISH_STOP;
    result.save = wish == WISH_SAVE;
    if (result.skipped)
        TT_TRY(keep_buffers(job, true));
    *result_out = result;
    return TT_OK;
}

// Numbers are keyed by their index in the whole tensor, so any partition sees the
// same data.
static void random_fill(const tt_plan *plan, const char *name, uint64_t key,
                        int64_t below, int64_t first, void *out)
{
    const tt_graph *g = plan->graph;
    const tt_type *type = &g->value[tt_graph_find(g, name).id].type;
    tt_local local;
    tt_local_of(type, &g->mesh, plan->rank, &local);
    const int64_t n = tt_shape_count(&local.shape);
    for (int64_t i = 0; i < n; i++) {
        const double u = tt_rng_uniform(
            key, (uint64_t)(first + tt_local_to_global(&local, i)));
        tt_dtype_store(type->dtype, out, i,
                       tt_dtype_is_float(type->dtype)
                           ? 2 * u - 1
                           : (double)(int64_t)(u * (double)below));
    }
}

tt_status tt_job_feed_random(void *user, const tt_job *job, int64_t micro,
                             void *x, void *y)
{
    (void)user;
    const uint64_t seed = (uint64_t)job->options.seed;
    // Within a stretch micro-batches are counted from its beginning.
    const int64_t step = job->workers > 0            ? job->number
                         : tt__is_endless(job->pipe) ? job->stretch.first
                                                     : job->step;
    const uint64_t when = (uint64_t)(step * job->options.accumulate + micro);
    const int64_t nx = job->worker * tt_feed_count(job->plan, "x");
    const int64_t ny = job->worker * tt_feed_count(job->plan, "y");
    random_fill(job->plan, "x", tt_rng_key(seed, "x", when), job->classes, nx,
                x);
    random_fill(job->plan, "y", tt_rng_key(seed, "y", when), job->classes, ny,
                y);
    return TT_OK;
}
