// create - a def's table: options, what has no meaning, rows, the rest.

#include "pipe/inside.h"

#include <string.h>

// A def's options as a struct, in the arena.
static tt_status read_params(const tt_pipe_def *def, const char *options,
                             tt_arena *arena, const void **params_out)
{
    static const tt_opt none[] = {{0}};
    const tt_opt *table = def->options != NULL ? def->options : none;
    void *params = tt_arena_alloc(arena, def->params_bytes + 1);
    if (params == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_opt_defaults(table, params, arena));
    if (options != NULL)
        TT_TRY(tt_opt_parse(table, params, options, arena));
    *params_out = params;
    return TT_OK;
}

static tt_status check_shape(const tt_pipe_def *def, const tt_pipe_shape *s,
                             const void *params)
{
    if (def->has_no_chunks && s->chunks > 1)
        return tt_fail(TT_ERR_ARG,
                       "%d chunks per rank: this schedule has one; "
                       "interleaved has several",
                       s->chunks);
    if (s->ranks < 1 || s->micro < 1)
        return tt_fail(TT_ERR_ARG,
                       "%d ranks, %d micro-batches: there must be at least "
                       "one of each",
                       s->ranks, s->micro);
    if (def->n_copies == 2 && s->ranks % 2 != 0)
        return tt_fail(TT_ERR_ARG,
                       "%d ranks: two copies of the model in opposite "
                       "directions need an even number of ranks",
                       s->ranks);
    return def->refuse != NULL ? def->refuse(s, params) : TT_OK;
}

static tt_pipe_shape whole_shape(const tt_pipe_shape *shape)
{
    tt_pipe_shape s = *shape;
    s.chunks = s.chunks == 0 ? 1 : s.chunks;
    s.steps = s.steps == 0 ? 1 : s.steps;
    return s;
}

static tt_status new_table(const tt_pipe_def *def, const tt_pipe_shape *s,
                           tt_pipe **pipe_out)
{
    if (s->chunks < 1 || s->chunks > TT_PIPE_CHUNKS_MAX)
        return tt_fail(TT_ERR_ARG, "%d chunks per rank: 1 to %d", s->chunks,
                       TT_PIPE_CHUNKS_MAX);
    const int64_t n = (int64_t)s->ranks * s->chunks;
    const tt_pipe sizes = {
        .name = def->name,
        .n_ranks = s->ranks,
        .n_chunks = n > INT32_MAX ? INT32_MAX : (int32_t)n,
        .n_copies = def->n_copies == 2 ? 2 : 1,
        .n_micro = s->micro,
        .n_steps = s->steps,
        .rule = def->rule,
    };
    const int64_t all = (int64_t)s->micro * s->steps;
    if (n <= TT_PIPE_CHUNKS_MAX && all <= TT_PIPE_MICRO_MAX &&
        n * all > TT_PIPE_WORK_MAX)
        return tt_fail(TT_ERR_ARG,
                       "%lld chunks and %lld micro-batches: the table would be "
                       "too large; chunks times micro-batches may be %d",
                       (long long)n, (long long)all, TT_PIPE_WORK_MAX);
    TT_TRY(tt__pipe_new(&sizes, pipe_out));
    tt_pipe *p = *pipe_out;
    // Chunks go round the ranks; those of the second copy the other way.
    for (int32_t c = 0; c < p->n_chunks; c++) {
        p->place[c] = c % s->ranks;
        if (p->n_copies == 2)
            p->place[tt_pipe_at(p, 1, c)] = s->ranks - 1 - c % s->ranks;
    }
    for (int32_t i = 0; i < p->n_copies * p->n_chunks; i++)
        p->n_versions[i] = 1;
    return TT_OK;
}

// After the rows of the first step: the updates of the chunks that a rank holds.
static tt_status add_updates(tt_pipe *p)
{
    for (int32_t copy = 0; copy < p->n_copies; copy++)
        for (int32_t c = 0; c < p->n_chunks; c++) {
            const tt_pipe_row row = {.phase = TT_PIPE_UPDATE,
                                     .chunk = c,
                                     .copy = copy,
                                     .micro = p->n_micro - 1};
            TT_TRY(tt__pipe_add_row(p, p->place[tt_pipe_at(p, copy, c)], &row));
        }
    return TT_OK;
}

static tt_status repeat_step(tt_pipe *p)
{
    for (int32_t r = 0; r < p->n_ranks; r++) {
        const int32_t n = p->rank[r].n;
        for (int32_t step = 1; step < p->n_steps; step++)
            for (int32_t i = 0; i < n; i++) {
                tt_pipe_row row = p->rank[r].row[i];
                row.micro += step * p->n_micro;
                TT_TRY(tt__pipe_add_row(p, r, &row));
            }
    }
    return TT_OK;
}

static tt_status create(const tt_pipe_def *def, const tt_pipe_shape *shape,
                        const char *options, tt_arena *arena,
                        tt_pipe **pipe_out)
{
    const void *params = NULL;
    TT_TRY(read_params(def, options, arena, &params));
    TT_TRY(check_shape(def, shape, params));
    TT_TRY(new_table(def, shape, pipe_out));
    tt_pipe *p = *pipe_out;
    TT_TRY(def->fill(p, shape, params));
    if (def->rule == TT_PIPE_FLUSH) {
        TT_TRY(add_updates(p));
        TT_TRY(repeat_step(p));
    }
    return tt__pipe_finish(p);
}

tt_status tt_pipe_create(const tt_pipe_def *def, const tt_pipe_shape *shape,
                         const char *options, tt_pipe **pipe_out)
{
    const tt_pipe_shape s = whole_shape(shape);
    tt_arena *arena = tt_arena_create();
    tt_pipe *p = NULL;
    tt_status status =
        arena ? create(def, &s, options, arena, &p) : TT_ERR_NOMEM;
    tt_arena_destroy(arena);
    if (status != TT_OK) {
        tt_pipe_destroy(p);
        return tt_fail_context(status, "schedule %s", def->name);
    }
    *pipe_out = p;
    return TT_OK;
}

tt_status tt_pipe_bubble(const tt_pipe_def *def, const tt_pipe_shape *shape,
                         const char *options, const tt_pipe_even *seconds,
                         double *bubble_out)
{
    const tt_pipe_shape s = whole_shape(shape);
    const void *params = NULL;
    tt_arena *arena = tt_arena_create();
    tt_status status =
        arena ? read_params(def, options, arena, &params) : TT_ERR_NOMEM;
    if (status == TT_OK)
        *bubble_out =
            def->bubble != NULL ? def->bubble(&s, params, seconds) : -1;
    tt_arena_destroy(arena);
    return status;
}

tt_status tt_pipe_slots(const tt_pipe_def *def, const tt_pipe_shape *shape,
                        const char *options, int32_t rank, int64_t *slots_out)
{
    const tt_pipe_shape s = whole_shape(shape);
    const void *params = NULL;
    tt_arena *arena = tt_arena_create();
    tt_status status =
        arena ? read_params(def, options, arena, &params) : TT_ERR_NOMEM;
    if (status == TT_OK)
        *slots_out = def->slots != NULL ? def->slots(&s, params, rank) : -1;
    tt_arena_destroy(arena);
    return status;
}
