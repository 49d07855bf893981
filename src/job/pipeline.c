// pipeline - from pipe.* to the rows that a plan is lowered with.
//
//   pipe.cut        -> tt_layers_cut     each node gets the number of its chunk
//   pipe.schedule   -> tt_pipe           a generator's table, or one from a file
//   tt_pipe, rank   -> tt_lower_row[]    the rank's rows, as phases of the graph
//
// A table says "backward" or "input gradient, weight gradient". A graph has the phases
// backward and weight gradient; lowering keeps them in one segment unless it is asked
// not to. So if any rank has gradients apart, all plans have them apart, and a row
// "backward" is two rows.

#include "job/pipeline.h"

#include "base/alloc.h"
#include "base/nearest.h"
#include "job/ages.h"
#include "job/endless.h"
#include "pipe/text.h"

#include <string.h>

static bool is_auto(const char *text)
{
    return strcmp(text, "auto") == 0;
}

static int32_t chunks_of(const tt_job *job)
{
    return (int32_t)job->distribution.pipe_chunks;
}

tt_layers_cut tt__pipeline_cut(const tt_job *job)
{
    const tt_distribution *d = &job->distribution;
    const int32_t stages = tt__endless_stages(job);
    if (tt_job_is_late(job))
        return (tt_layers_cut){.n_chunks = (int32_t)job->exchange.chunks};
    if (stages == 1)
        return (tt_layers_cut){0};
    return (tt_layers_cut){.n_chunks = stages * chunks_of(job),
                           .names = is_auto(d->pipe_cut) ? NULL : d->pipe_cut};
}

// ---- the table -----------------------------------------------------------

// A name that looks like a path is a file's.
static bool is_file(const char *name)
{
    return strpbrk(name, "/.") != NULL;
}

static tt_status unknown(const char *name)
{
    int n = 0;
    tt_near near = {.word = name};
    const tt_pipe_def *const *all = tt_pipe_all(&n);
    tt_near_try(&near, "auto");
    for (int i = 0; i < n; i++)
        tt_near_try(&near, all[i]->name);
    if (near.best != NULL)
        return tt_fail(TT_ERR_ARG,
                       "pipe.schedule=%s: there is no such schedule; did you "
                       "mean %s?",
                       name, near.best);
    return tt_fail(TT_ERR_ARG,
                   "pipe.schedule=%s: there is no such schedule; `tutti list "
                   "schedules` names them, and a file is named by its path, "
                   "like ./%s",
                   name, name);
}

static tt_status make_named(const tt_job *job, const char *name,
                            int64_t accumulate, tt_pipe **pipe_out)
{
    const tt_pipe_def *def = tt_pipe_find(name);
    if (def == NULL)
        return unknown(name);
    const tt_pipe_shape shape = {
        .ranks = tt__endless_stages(job),
        .chunks = chunks_of(job),
        .micro = (int32_t)accumulate,
        .steps = def->rule == TT_PIPE_FLUSH ? 1 : tt__endless_steps(job)};
    return tt_pipe_create(def, &shape, NULL, pipe_out);
}

// A file is read for it; what is wrong with it is said when it is planned.
bool tt__pipeline_crosses(const tt_job *job)
{
    const char *name = job->distribution.pipe_schedule;
    const tt_pipe_def *def = tt_pipe_find(name);
    tt_pipe *pipe = NULL;
    if (job->grid.size[TT_AXIS_PIPE] == 1)
        return false;
    if (def != NULL || !is_file(name))
        return def != NULL && def->n_copies > 1;
    const bool has = tt_pipe_read(name, &pipe) == TT_OK && pipe->n_copies > 1;
    tt_pipe_destroy(pipe);
    return has;
}

// A table from a file is of the job's own shape.
static tt_status check_shape(const tt_job *job, const tt_pipe *p,
                             int64_t accumulate)
{
    const int64_t ranks = tt__endless_stages(job);
    if (p->n_ranks != ranks)
        return tt_fail(TT_ERR_ARG, "it is for mesh.pipe=%d, and there are %lld",
                       p->n_ranks, (long long)ranks);
    if (p->n_chunks != ranks * chunks_of(job))
        return tt_fail(TT_ERR_ARG,
                       "it has %d chunks, and mesh.pipe x pipe.chunks is %lld",
                       p->n_chunks, (long long)(ranks * chunks_of(job)));
    if (p->n_micro != accumulate)
        return tt_fail(TT_ERR_ARG,
                       "it is for accumulate=%d, and there are %lld "
                       "micro-batches",
                       p->n_micro, (long long)accumulate);
    for (int32_t i = 0; i < p->n_copies * p->n_chunks; i++) {
        const int32_t copy = i / p->n_chunks, c = i % p->n_chunks;
        const int32_t stage = tt_mesh_copy_stage(p->n_chunks, copy, c);
        const int coord = tt_mesh_stage_coord(p->n_ranks, stage);
        if (p->place[i] != coord)
            return tt_fail(TT_ERR_ARG,
                           "chunk %d lies on rank %d, and it must lie on rank "
                           "%d: chunks go round%s",
                           c, p->place[i], coord,
                           copy > 0 ? ", those of the second copy backwards"
                                    : "");
    }
    return TT_OK;
}

// Codes are made of whole gradients, for an update that comes after them. So are the rows of
// factors, which are multiplied to whole gradients.
static tt_status check_codec(const tt_pipe *p, const char *codec)
{
    if (p->n_copies > 1)
        return tt_fail(TT_ERR_ARG,
                       "exchange.codec=%s is for whole gradients, and each of "
                       "the two copies of the model has a part of one; "
                       "pipe.schedule=1f1b would do",
                       codec);
    if (p->rule != TT_PIPE_FLUSH)
        return tt_fail(TT_ERR_ARG,
                       "exchange.codec=%s is for updates that come after all "
                       "micro-batches of a step, and here they do not wait "
                       "for the pipe to be empty; pipe.schedule=1f1b would do",
                       codec);
    return TT_OK;
}

// What a table may say and no plan can run.
static tt_status check_kind(const tt_job *job, const tt_pipe *p)
{
    if (p->rule == TT_PIPE_FLUSH && p->n_steps > 1)
        return tt_fail(TT_ERR_ARG,
                       "it has %d steps, and one is enough where the pipe is "
                       "emptied before each update",
                       p->n_steps);
    if (p->n_copies > 1 && job->options.exact)
        return tt_fail(TT_ERR_ARG,
                       "each of its two copies of the model sums its own "
                       "gradients, and with exact=true sums have the order of "
                       "one rank; pipe.schedule=1f1b would do");
    if (tt_exchange_is_coded(&job->exchange))
        TT_TRY(check_codec(p, tt_exchange_codec(&job->exchange)->name));
    if (p->n_copies > 1 && p->n_chunks > p->n_ranks)
        return tt_fail(TT_ERR_ARG,
                       "it has two copies of the model in %d chunks on %d "
                       "ranks; pipe.chunks=1 would do",
                       p->n_chunks, p->n_ranks);
    if (p->bound > 0 && job->options.exact)
        return tt_fail(
            TT_ERR_ARG,
            "its order is decided by what arrives first, and with "
            "exact=true nothing may depend on that; pipe.schedule=1f1b "
            "would do");
    return TT_OK;
}

// Sums of gradients are taken in the order of rows. Where that matters, it is the order
// of micro-batches, as on one rank.
static tt_status check_ascends(const tt_pipe *p, int32_t rank, const char *why)
{
    const tt_pipe_rank *rows = &p->rank[rank];
    for (int32_t i = 0; i < rows->n; i++)
        for (int32_t k = i - 1; k >= 0; k--) {
            const tt_pipe_row *a = &rows->row[k], *b = &rows->row[i];
            if (a->phase != b->phase || a->chunk != b->chunk)
                continue;
            if (a->micro > b->micro)
                return tt_fail(
                    TT_ERR_ARG,
                    "row %d of rank %d is %s of chunk %d and "
                    "micro-batch %d, after that of %d; %s needs them in their "
                    "order",
                    i, rank, tt_pipe_phase_name(b->phase), b->chunk, b->micro,
                    a->micro, why);
            break; // the one before it was compared already
        }
    return TT_OK;
}

static tt_status check(const tt_job *job, const tt_pipe *p, int64_t accumulate)
{
    TT_TRY(check_kind(job, p));
    TT_TRY(check_shape(job, p, accumulate));
    if (tt__is_endless(p))
        TT_TRY(tt__endless_check(job, p));
    TT_TRY(tt_pipe_check(p, 0));
    for (int32_t r = 0; r < p->n_ranks; r++) {
        if (job->options.exact)
            TT_TRY(check_ascends(p, r, "exact=true"));
        if (tt__is_endless(p))
            TT_TRY(check_ascends(p, r, "a pipe that stays full"));
    }
    return TT_OK;
}

// One stage, whose updates come in the next step.
static tt_status make_late(const tt_job *job, int64_t accumulate,
                           tt_pipe **pipe_out)
{
    const tt_pipe_shape shape = {.ranks = 1,
                                 .chunks = (int32_t)job->exchange.chunks,
                                 .micro = (int32_t)accumulate,
                                 .steps = tt__endless_steps(job)};
    tt_pipe *p = NULL;
    TT_TRY(tt_pipe_create(tt_pipe_find("late"), &shape, NULL, &p));
    tt_status status = tt__endless_check(job, p);
    if (status == TT_OK)
        status = tt_pipe_check(p, 0);
    if (status != TT_OK) {
        tt_pipe_destroy(p);
        return tt_fail_context(status, "exchange.chunks=%d", shape.chunks);
    }
    *pipe_out = p;
    return TT_OK;
}

tt_status tt__pipeline_make(const tt_job *job, int64_t accumulate,
                            tt_pipe **pipe_out)
{
    const char *name = job->distribution.pipe_schedule;
    tt_pipe *p = NULL;
    *pipe_out = NULL;
    TT_TRY(tt__late_check(job));
    TT_TRY(tt__ages_check(job));
    if (tt_job_is_late(job))
        return make_late(job, accumulate, pipe_out);
    if (tt__endless_stages(job) == 1)
        return TT_OK;
    if (is_auto(name))
        name = chunks_of(job) > 1 ? "interleaved" : "1f1b";
    tt_status status = is_file(name) ? tt_pipe_read(name, &p)
                                     : make_named(job, name, accumulate, &p);
    if (status != TT_OK && tt_pipe_find(name) == NULL)
        return status;
    if (p != NULL)
        status = check(job, p, accumulate);
    if (status != TT_OK) {
        tt_pipe_destroy(p);
        return tt_fail_context(status, "pipe.schedule=%s", name);
    }
    *pipe_out = p;
    return TT_OK;
}

// ---- the rows ------------------------------------------------------------

static bool has_apart(const tt_pipe *p)
{
    for (int32_t r = 0; r < p->n_ranks; r++)
        for (int32_t i = 0; i < p->rank[r].n; i++)
            if (p->rank[r].row[i].phase == TT_PIPE_INPUT_GRAD)
                return true;
    return false;
}

// Appends a row of the table as rows of a plan.
static int32_t add_row(const tt_pipe *p, const tt_pipe_row *from, bool is_apart,
                       tt_lower_row *to)
{
    static const tt_phase phase[TT_N_PIPE_PHASES] = {
        [TT_PIPE_FORWARD] = TT_FORWARD,
        [TT_PIPE_BACKWARD] = TT_BACKWARD,
        [TT_PIPE_INPUT_GRAD] = TT_BACKWARD,
        [TT_PIPE_WEIGHT_GRAD] = TT_WEIGHT_GRAD,
        [TT_PIPE_UPDATE] = TT_UPDATE};
    if (from->phase == TT_PIPE_UPDATE && !tt__is_endless(p))
        return 0; // comes last in such a plan
    to[0] =
        (tt_lower_row){phase[from->phase],
                       tt_mesh_copy_stage(p->n_chunks, from->copy, from->chunk),
                       from->micro, from->version, from->ahead};
    if (from->phase != TT_PIPE_BACKWARD || !is_apart)
        return 1;
    to[1] = to[0];
    to[1].phase = TT_WEIGHT_GRAD;
    return 2;
}

// The rows of a rank; where it carries out the whole table, those of all.
static tt_status rows_of(const tt_pipe *pipe, const tt_graph *graph,
                         int32_t rank, tt_pipe_row **folded_out,
                         tt_pipe_rank *rows_out)
{
    const int axis = tt_mesh_pipe(&graph->mesh);
    *folded_out = NULL;
    if (axis >= 0) {
        *rows_out = pipe->rank[tt_mesh_coord(&graph->mesh, rank, axis)];
        return TT_OK;
    }
    TT_TRY(tt__endless_fold(pipe, folded_out, &rows_out->n));
    rows_out->row = *folded_out;
    return TT_OK;
}

// A state that changes with every micro-batch (running averages of batch norm do);
// NULL: there is none.
static const char *state_of_rows(const tt_graph *g)
{
    for (int32_t v = 0; v < g->n_values; v++)
        if (tt_is(g->value[v].updates) && g->value[v].node >= 0 &&
            g->node[g->value[v].node].phase != TT_UPDATE)
            return g->value[g->value[v].updates.id].name;
    return NULL;
}

tt_status tt__pipeline_check_graph(const tt_pipe *pipe, const tt_graph *graph)
{
    const char *state =
        pipe != NULL && pipe->n_copies > 1 ? state_of_rows(graph) : NULL;
    return state == NULL
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "pipe.schedule=%s: %s changes with every micro-batch, "
                         "and each of two copies of the model would see half "
                         "of them; pipe.schedule=1f1b would do",
                         pipe->name, state);
}

tt_status tt__pipeline_rows(const tt_pipe *pipe, const tt_graph *graph,
                            int32_t rank, tt_lower_options *options,
                            tt_lower_row **row_out)
{
    *row_out = NULL;
    if (pipe == NULL)
        return TT_OK;
    const char *state = state_of_rows(graph);
    const int axis = tt_mesh_pipe(&graph->mesh);
    if (state != NULL && axis >= 0)
        TT_TRY(check_ascends(pipe, tt_mesh_coord(&graph->mesh, rank, axis),
                             state));
    tt_pipe_row *folded = NULL;
    tt_pipe_rank rows = {0};
    TT_TRY(rows_of(pipe, graph, rank, &folded, &rows));
    tt_lower_row *row = tt_alloc(2 * (int64_t)sizeof *row * (rows.n + 1));
    options->row = row;
    options->split_weight_grad = has_apart(pipe);
    options->bound = pipe->bound;
    if (tt__is_endless(pipe)) {
        options->n_updates = pipe->n_steps;
        options->n_versions = pipe->n_versions;
    }
    for (int32_t i = 0; i < rows.n && row != NULL; i++)
        options->n_rows +=
            add_row(pipe, &rows.row[i], options->split_weight_grad,
                    &row[options->n_rows]);
    tt_free(folded);
    *row_out = row;
    return row != NULL ? TT_OK
                       : tt_fail(TT_ERR_NOMEM, "no memory for a schedule");
}
