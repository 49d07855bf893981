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
    const int32_t stages = (int32_t)job->grid.size[TT_AXIS_PIPE];
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
    const tt_pipe_shape shape = {.ranks = (int32_t)job->grid.size[TT_AXIS_PIPE],
                                 .chunks = chunks_of(job),
                                 .micro = (int32_t)accumulate};
    const tt_pipe_def *def = tt_pipe_find(name);
    return def == NULL ? unknown(name)
                       : tt_pipe_create(def, &shape, NULL, pipe_out);
}

// A table from a file is of the job's own shape.
static tt_status check_shape(const tt_job *job, const tt_pipe *p,
                             int64_t accumulate)
{
    const int64_t ranks = job->grid.size[TT_AXIS_PIPE];
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
    for (int32_t c = 0; c < p->n_chunks; c++)
        if (p->place[c] != tt_mesh_stage_coord(p->n_ranks, c))
            return tt_fail(TT_ERR_ARG,
                           "chunk %d lies on rank %d, and it must lie on rank "
                           "%d: chunks go round",
                           c, p->place[c], tt_mesh_stage_coord(p->n_ranks, c));
    return TT_OK;
}

// What a table may say and no plan can run.
static tt_status check_kind(const tt_pipe *p)
{
    if (p->rule != TT_PIPE_FLUSH || p->n_steps > 1)
        return tt_fail(TT_ERR_ARG,
                       "it does not empty the pipe before an update, which "
                       "cannot be trained with yet; 1f1b and zb-h1 do");
    if (p->n_copies > 1)
        return tt_fail(TT_ERR_ARG,
                       "it has two copies of the model, which cannot be "
                       "trained with yet; 1f1b and zb-h1 have one");
    if (p->bound > 0)
        return tt_fail(TT_ERR_ARG,
                       "its order is decided while it runs, which cannot be "
                       "trained with yet; 1f1b has a fixed one");
    return TT_OK;
}

// Data come micro-batch after micro-batch, and sums are taken in their order, so that
// they are those of one rank.
static tt_status check_ascends(const tt_pipe *p, int32_t rank)
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
                    "micro-batch %d, after that of %d; micro-batches "
                    "must come in their order",
                    i, rank, tt_pipe_phase_name(b->phase), b->chunk, b->micro,
                    a->micro);
            break; // the one before it was compared already
        }
    return TT_OK;
}

static tt_status check(const tt_job *job, const tt_pipe *p, int64_t accumulate)
{
    TT_TRY(check_kind(p));
    TT_TRY(check_shape(job, p, accumulate));
    TT_TRY(tt_pipe_check(p, 0));
    for (int32_t r = 0; r < p->n_ranks; r++)
        TT_TRY(check_ascends(p, r));
    return TT_OK;
}

tt_status tt__pipeline_make(const tt_job *job, int64_t accumulate,
                            tt_pipe **pipe_out)
{
    const char *name = job->distribution.pipe_schedule;
    tt_pipe *p = NULL;
    *pipe_out = NULL;
    if (job->grid.size[TT_AXIS_PIPE] == 1)
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
static int32_t add_row(const tt_pipe_row *from, bool is_apart, tt_lower_row *to)
{
    static const tt_phase phase[TT_N_PIPE_PHASES] = {
        [TT_PIPE_FORWARD] = TT_FORWARD,
        [TT_PIPE_BACKWARD] = TT_BACKWARD,
        [TT_PIPE_INPUT_GRAD] = TT_BACKWARD,
        [TT_PIPE_WEIGHT_GRAD] = TT_WEIGHT_GRAD,
        [TT_PIPE_UPDATE] = TT_UPDATE};
    if (from->phase == TT_PIPE_UPDATE) // comes last in every plan
        return 0;
    to[0] = (tt_lower_row){phase[from->phase], from->chunk, from->micro};
    if (from->phase != TT_PIPE_BACKWARD || !is_apart)
        return 1;
    to[1] = (tt_lower_row){TT_WEIGHT_GRAD, from->chunk, from->micro};
    return 2;
}

tt_status tt__pipeline_rows(const tt_pipe *pipe, const tt_graph *graph,
                            int32_t rank, tt_lower_options *options,
                            tt_lower_row **row_out)
{
    *row_out = NULL;
    if (pipe == NULL)
        return TT_OK;
    const int coord =
        tt_mesh_coord(&graph->mesh, rank, tt_mesh_pipe(&graph->mesh));
    const tt_pipe_rank *rows = &pipe->rank[coord];
    tt_lower_row *row = tt_alloc(2 * (int64_t)sizeof *row * (rows->n + 1));
    if (row == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a schedule");
    options->row = row;
    options->split_weight_grad = has_apart(pipe);
    for (int32_t i = 0; i < rows->n; i++)
        options->n_rows += add_row(&rows->row[i], options->split_weight_grad,
                                   &row[options->n_rows]);
    *row_out = row;
    return TT_OK;
}
