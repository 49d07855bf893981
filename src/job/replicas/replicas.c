// replicas - see the header, pass/replicas.h and docs/exchange.md.
//
// The graph is built for one replica: its part of a micro-batch, its loss, its clipping,
// its guard. Pass replicas makes everything own, pass blocks gives each rank several.
//
// Nothing is sent by a step itself. What replicas have computed (losses, counts) is summed
// here, by each rank for its own replicas. Ranks tell each other at meetings: every rank
// gets every replica's numbers and adds them in the same order. So all decide alike, and
// the numbers do not depend on how many ranks there are.

#include "job/replicas/replicas.h"

#include "base/alloc.h"
#include "job/exact.h"
#include "job/replicas/job_gamma.h"
#include "job/replicas/job_groups.h"
#include "job/replicas/job_landing.h"
#include "job/replicas/job_period.h"
#include "ops/comm/replicas.h"
#include "pass/blocks.h"
#include "pass/replicas.h"

#include <math.h>
#include <string.h>

int64_t tt__job_replicas_count(const tt_job *job)
{
    tt__job_groups groups;
    if (!tt_exchange_is_static(&job->exchange))
        return 1;
    tt__job_groups_of(job, &groups);
    return groups.replicas;
}

int tt__job_replicas_dims(const tt_job *job)
{
    tt__job_groups groups;
    if (job->replicas.n == 0)
        return 0;
    tt__job_groups_of(job, &groups);
    return groups.n_levels;
}

static bool differs(const tt_job *job)
{
    return tt__job_replicas_count(job) > 1;
}

// ---- the graph -----------------------------------------------------------

// Rules without the axis of the replicas: each has all of its samples, or divides them
// between the members of its group.
static tt_status own_rules(const tt_job *job, bool is_shared,
                           tt_partition_params *params)
{
    const tt_layout_rule members = {.dim = "batch", .axis = TT_GROUP};
    tt_layout *rules = tt_arena_alloc(job->arena, sizeof *rules);
    if (rules == NULL)
        return TT_ERR_NOMEM;
    if (is_shared)
        TT_TRY(tt_layout_add(rules, job->arena, &members));
    for (int32_t i = 0; i < params->rules->n; i++)
        if (strcmp(params->rules->rule[i].axis, tt_axis_name[TT_AXIS_DATA]) !=
            0)
            TT_TRY(tt_layout_add(rules, job->arena, &params->rules->rule[i]));
    params->rules = rules;
    return TT_OK;
}

// A change of weights is told once: entries that a code leaves out must not be forgotten, even
// if it would be right on average over many.
static bool has_feedback(const tt_job *job)
{
    const tt_exchange *e = &job->exchange;
    return tt_exchange_has_feedback(e) ||
           (e->feedback == TT_FEEDBACK_AUTO && tt_exchange_codec(e)->is_sparse);
}

tt_status tt__job_replicas_partition(const tt_job *job,
                                     tt_partition_params *params,
                                     tt_chain *chain)
{
    tt__job_groups groups;
    tt_blocks_params fold;
    tt_replicas_params own = {.codec = tt_exchange_is_coded(&job->exchange)
                                           ? tt_exchange_codec(&job->exchange)
                                           : NULL,
                              .codec_params = job->exchange.codec_params,
                              .feedback = has_feedback(job)};
    tt__job_groups_of(job, &groups);
    const bool is_shared =
        groups.share > 1 && tt__job_groups_size(job, &groups) > 1;
    if (groups.level[0].policy->codec != NULL)
        own.codec = tt_codec_find(groups.level[0].policy->codec);
    if (own.codec != NULL && groups.level[0].policy->mix != NULL)
        TT_TRY(tt__job_gamma(own.codec, own.codec_params, &own.gamma));
    own.n_levels = groups.n_levels;
    own.shared = is_shared ? TT_GROUP : NULL;
    memcpy(own.level, groups.level, sizeof own.level);
    params->canonical = job->options.exact;
    params->zero = 0;
    TT_TRY(tt__job_groups_mesh(job, &groups, &params->mesh));
    TT_TRY(own_rules(job, is_shared, params));
    tt_chain_add(chain, &tt_pass_replicas, &own);
    if (tt__job_groups_fold(job, &groups, &fold))
        tt_chain_add(chain, &tt_pass_blocks, &fold);
    return TT_OK;
}

// ---- tallies -------------------------------------------------------------

enum { LOSS, COUNT, CORRECT, NORM, SKIPPED, N_READ };

static const char *const output_name[N_READ] = {"loss", "count", "correct",
                                                "norm", "skipped"};

tt_status tt__job_replicas_start(tt_job *job)
{
    tt_job_replicas *r = &job->replicas;
    if (!differs(job))
        return TT_OK;
    TT_TRY(tt__job_landing_start(job));
    r->tally = tt_arena_alloc(job->arena, r->n * (int64_t)sizeof *r->tally);
    r->read = tt_arena_alloc(job->arena, r->n * (int64_t)sizeof(double));
    r->value =
        tt_arena_alloc(job->arena, r->n * N_READ * (int64_t)sizeof(double));
    return r->tally != NULL && r->read != NULL && r->value != NULL
               ? tt_job_spread(job)
               : TT_ERR_NOMEM;
}

tt_status tt_job_spread(tt_job *job)
{
    TT_TRY(tt_job_land(job));
    job->replicas.model_step = job->step;
    return differs(job) ? tt_exec_run_aside(job->exec, TT_SPREAD, 0) : TT_OK;
}

tt_status tt__job_replicas_feed(tt_job *job, int32_t micro)
{
    tt__job_groups groups;
    int64_t first = 0, n = 0;
    const tt_val v = tt_graph_find(job->graph, "first_sample");
    int64_t *at = job->replicas.read;
    if (!tt_is(v))
        return TT_OK;
    tt_job_samples(job, &first, &n);
    tt__job_groups_of(job, &groups);
    const int64_t each = job->io.batch / groups.replicas;
    for (int64_t i = 0; i < job->replicas.n; i++)
        at[i] = micro * job->io.batch + (first / each + i) * each;
    return tt_exec_write(job->exec, v, at);
}

// The numbers of this rank's replicas.
static tt_status read_output(const tt_job *job, const char *name,
                             double *value_out)
{
    const tt_val v = tt_graph_output_find(job->graph, name);
    const int64_t n = job->replicas.n;
    for (int64_t i = 0; i < n; i++)
        value_out[i] = 0;
    if (!tt_is(v))
        return TT_OK;
    TT_TRY(tt_exec_read(job->exec, v, job->replicas.read));
    for (int64_t i = 0; i < n; i++)
        value_out[i] = tt_dtype_load(job->graph->value[v.id].type.dtype,
                                     job->replicas.read, i);
    return TT_OK;
}

// A step that a replica's guard has skipped counts as skipped only.
static void add_up(tt_job *job, const double *value)
{
    const int64_t n = job->replicas.n;
    for (int64_t i = 0; i < n; i++) {
        tt_replica_tally *t = &job->replicas.tally[i];
        t->last = value[LOSS * n + i] / fmax(value[COUNT * n + i], 1);
        if (value[SKIPPED * n + i] != 0) {
            t->skipped++;
            t->bad += !isfinite(t->last) || !isfinite(value[NORM * n + i]);
            continue;
        }
        t->loss += value[LOSS * n + i];
        t->count += value[COUNT * n + i];
        t->correct += value[CORRECT * n + i];
        t->norm += value[NORM * n + i];
    }
    job->replicas.steps++;
}

// ---- meetings ------------------------------------------------------------

// What a rank says at a meeting, once for each of its replicas.
typedef struct tt__statement {
    tt_replica_tally tally;
    double wants_stop, wants_save;
} tt__statement;

// Whether a rank has the same as one before it, because both divide a group's samples.
static bool is_shared(const tt_job *job, int32_t rank)
{
    const tt_mesh *mesh = &job->graph->mesh;
    tt__job_groups groups;
    tt__job_groups_of(job, &groups);
    for (int a = 0; a < mesh->n_axes && groups.share > 1; a++)
        if (strcmp(mesh->axis[a].name, TT_GROUP) == 0)
            return tt_mesh_coord(mesh, rank, a) != 0;
    return false;
}

// The sum over all replicas, in their order: ranks that differ along other axes have the
// same, and the first of them counts. A wish counts from whomever it is.
static void sum_up(const tt_job *job, const tt__statement *all,
                   tt_step_result *result_out)
{
    tt_step_result r = {0};
    const tt_job_replicas *own = &job->replicas;
    const double replicas = (double)tt__job_replicas_count(job);
    const double steps = (double)(own->steps > 0 ? own->steps : 1) * replicas;
    double loss = 0, lengths = 0;
    for (int32_t rank = 0; rank < job->peers.size; rank++) {
        const bool is_first = tt_job_is_first_of(job, rank);
        const bool is_asked = is_first || !is_shared(job, rank);
        lengths += is_first ? 1 : 0;
        for (int64_t i = 0; i < own->n; i++) {
            const tt__statement *s = &all[rank * own->n + i];
            r.stop = r.stop || s->wants_stop != 0;
            r.save = r.save || s->wants_save != 0;
            r.distance += is_asked ? s->tally.distance : 0;
            r.length += is_asked && i == 0 ? s->tally.length : 0;
            if (!is_first)
                continue;
            if (lengths == 1 && i == 0)
                r.single = s->tally.last;
            loss += s->tally.loss;
            r.count += s->tally.count;
            r.correct += s->tally.correct;
            r.norm += s->tally.norm / steps;
            r.n_skipped += s->tally.skipped;
            r.n_bad += s->tally.bad;
        }
    }
    r.steps = own->steps;
    r.n_single = steps;
    r.loss = r.count > 0 ? loss / r.count : (double)NAN;
    r.save = r.save && !r.stop;
    r.skipped = r.count == 0;
    r.distance = sqrt(r.distance / replicas);
    r.length = sqrt(r.length / lengths);
    *result_out = r;
}

bool tt_job_is_first_of(const tt_job *job, int32_t rank)
{
    const tt_mesh *mesh = &job->graph->mesh;
    tt__job_groups groups;
    tt__job_groups_of(job, &groups);
    for (int a = 0; a < mesh->n_axes; a++) {
        const char *name = mesh->axis[a].name;
        const bool is_replicas =
            strcmp(name, tt_axis_name[TT_AXIS_DATA]) == 0 ||
            (strcmp(name, TT_GROUP) == 0 && groups.share == 1);
        if (!is_replicas && tt_mesh_coord(mesh, rank, a) != 0)
            return false;
    }
    return true;
}

static tt_status meet(tt_job *job, tt_step_result *result_out)
{
    const int64_t n = job->replicas.n;
    const int64_t bytes = n * (int64_t)sizeof(tt__statement);
    tt__statement *mine = tt_alloc((job->peers.size + 1) * bytes);
    tt_status status = TT_OK;
    if (mine == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a meeting");
    tt__statement *all = mine + n;
    for (int64_t i = 0; i < n; i++)
        mine[i] = (tt__statement){.tally = job->replicas.tally[i],
                                  .wants_stop = job->wants_stop,
                                  .wants_save = job->wants_save};
    if (job->peers.size > 1)
        status = tt_peers_collect(&job->peers, "meeting", mine, bytes, all);
    else
        memcpy(all, mine, (size_t)bytes);
    if (status == TT_OK)
        sum_up(job, all, result_out);
    tt_free(mine);
    memset(job->replicas.tally, 0, (size_t)n * sizeof *job->replicas.tally);
    job->replicas.steps = 0;
    return status;
}

// Until the next meeting a rank knows of its own replicas only.
static void tell_own(const tt_job *job, const double *value,
                     tt_step_result *result_out)
{
    const int64_t n = job->replicas.n;
    double loss = 0, count = 0;
    for (int64_t i = 0; i < n; i++) {
        loss += value[LOSS * n + i];
        count += value[COUNT * n + i];
    }
    *result_out = (tt_step_result){.loss = count > 0 ? loss / count : loss,
                                   .is_local = true};
}

tt_status tt_job_model(tt_job *job)
{
    const int64_t n = job->replicas.n;
    double length = 0;
    TT_TRY(tt_job_land(job));
    if (!differs(job) || job->replicas.model_step == job->step)
        return TT_OK;
    TT_TRY(tt_exec_run_aside(job->exec, TT_MEET, 0));
    job->replicas.model_step = job->step;
    TT_TRY(read_output(job, "distance", job->replicas.value));
    TT_TRY(tt_exec_get_scalar(
        job->exec, tt_graph_output_find(job->graph, "length"), &length));
    for (int64_t i = 0; i < n; i++) {
        job->replicas.tally[i].distance = job->replicas.value[i];
        job->replicas.tally[i].length = length;
    }
    return TT_OK;
}

// ---- a step --------------------------------------------------------------

bool tt__job_replicas_is_buffer(const tt_job *job, const tt_tensor *t)
{
    static const char suffix[] = "." TT_REPLICA;
    const size_t n = strlen(t->name), end = sizeof suffix - 1;
    if (n <= end || strcmp(t->name + n - end, suffix) != 0)
        return false;
    for (int64_t i = 0; i < job->tensors.n; i++)
        if (job->tensors.v[i].role == TT_TENSOR_BUFFER &&
            strncmp(job->tensors.v[i].name, t->name, n - end) == 0 &&
            job->tensors.v[i].name[n - end] == '\0')
            return true;
    return false;
}

// Statistics of replicas whose step was skipped are again what they were.
static tt_status restore_skipped(const tt_job *job, const double *skipped)
{
    const int64_t n = job->replicas.n;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < job->tensors.n && skipped[i] != 0; k++)
            if (tt__job_replicas_is_buffer(job, &job->tensors.v[k]))
                TT_TRY(tt_exec_restore_part(job->exec, job->tensors.v[k].val, i,
                                            n));
    return TT_OK;
}

// The plan's segments are there for the variants that agree about something.
static bool has_segment(const tt_job *job, int variant)
{
    for (int32_t s = 0; s < job->plan->n_segments; s++)
        if (job->plan->segment[s].phase == TT_AGREE &&
            job->plan->segment[s].stage == variant)
            return true;
    return false;
}

static tt_status run_agreement(tt_job *job, int number)
{
    if (!has_segment(job, number))
        return TT_OK;
    job->replicas.agreed++;
    TT_TRY(tt_exec_run_aside(job->exec, TT_AGREE, number));
    tt__job_landing_begun(job, number);
    return TT_OK;
}

// Groups speak of what was agreed inside; a late variant is about what its part has left on
// its way. `first` is the number of the level's first agreement.
static tt_status make_ready(tt_job *job, const tt_replicas_level *l, int first,
                            int variant)
{
    const int parts = l->policy->late != NULL ? l->policy->parts(l->params) : 0;
    TT_TRY(tt__job_land_before(job, first));
    return variant >= parts && parts > 0
               ? tt__job_land_one(job, first + variant - parts)
               : TT_OK;
}

// Replicas of a group first, then groups.
static tt_status agree(tt_job *job, const double *loss, const double *count)
{
    tt__job_groups groups;
    int first = 0;
    bool is_due = false;
    job->replicas.agreed = 0;
    tt__job_groups_of(job, &groups);
    for (int k = 0; k < groups.n_levels; k++) {
        const tt_replicas_level *l = &groups.level[k];
        const int n = tt_policy_variants(l->policy, l->params, groups.n[k]);
        if (tt_policy_is_retimed(l->policy, l->params)) {
            TT_TRY(tt__job_period_follow(job, l, loss, count, &is_due));
            TT_TRY(is_due ? run_agreement(job, first) : TT_OK);
        }
        for (int i = 0; i < n && !tt_policy_is_retimed(l->policy, l->params);
             i++)
            if (l->policy->is_due(l->params, groups.n[k], job->step, i)) {
                TT_TRY(make_ready(job, l, first, i));
                TT_TRY(run_agreement(job, first + i));
            }
        first += n;
    }
    return TT_OK;
}

tt_status tt__job_replicas_follow(tt_job *job, tt_step_result *result_out)
{
    double *value = job->replicas.value;
    for (int i = 0; i < N_READ; i++)
        TT_TRY(read_output(job, output_name[i],
                           value + (int64_t)i * job->replicas.n));
    add_up(job, value);
    if (job->guard)
        TT_TRY(restore_skipped(job, value + SKIPPED * job->replicas.n));
    TT_TRY(agree(job, value + LOSS * job->replicas.n,
                 value + COUNT * job->replicas.n));
    if (job->wants_model || job->wants_meeting)
        TT_TRY(tt_job_land(job));
    if (job->wants_model)
        TT_TRY(tt_job_model(job));
    if (job->wants_meeting)
        return meet(job, result_out);
    tell_own(job, value, result_out);
    return TT_OK;
}
