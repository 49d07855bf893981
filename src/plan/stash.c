// stash - places for older versions of weights.
//
// The problem. Where updates do not wait until the pipe is empty, a micro-batch may have to
// read the weights that were there some updates ago: its gradient must belong to what its
// forward pass read.
//
// The idea. Updates work where they always do, so the newest weights lie where everybody
// expects them. Before an update the executor copies what it will replace to a *place*, and
// rows that want an older version have the addresses of a place in the arguments of their
// kernels. n versions are the newest and n - 1 places; version v lies in place
// 1 + v % (n - 1) once it is not the newest any more.
//
//   version that rows read     0     0     1     0     2     1 ...
//   newest                     0     1     1     2     2     3
//   place                      -     1     -     1     -     2         3 versions, 2 places
//
// What is kept: each buffer that steps of the update write and other steps of the stage
// read. That is a weight, or the copy of it in 16 bits that kernels read; the weight in
// 32 bits, moments and averages are read by updates alone.
//
//   cost    one copy of the stage's weights per update, and their bytes per place

#include "plan/stash.h"

// The stage in whose forward or backward segments a buffer is read; -1: in none.
static int32_t reading_stage(const tt_plan *plan, int32_t buffer)
{
    for (int32_t i = 0; i < plan->n_segments; i++) {
        const tt_segment *segment = &plan->segment[i];
        if (segment->phase == TT_UPDATE)
            continue;
        for (int32_t s = 0; s < segment->n; s++) {
            const tt_step *step = &plan->step[segment->first + s];
            for (int32_t k = 0; k < step->n_in; k++)
                if (step->in[k].buffer == buffer)
                    return segment->stage;
        }
    }
    return -1;
}

static void mark_updated(const tt_plan *plan, bool *is_updated)
{
    for (int32_t i = 0; i < plan->n_segments; i++) {
        const tt_segment *segment = &plan->segment[i];
        for (int32_t s = 0; s < segment->n && segment->phase == TT_UPDATE;
             s++) {
            const tt_step *step = &plan->step[segment->first + s];
            for (int32_t k = 0; k < step->n_out; k++)
                if (step->out[k].buffer >= 0 &&
                    plan->buffer[step->out[k].buffer].class_ == TT_PERSISTENT)
                    is_updated[step->out[k].buffer] = true;
        }
    }
}

static tt_status add_places(tt__lower *l, int32_t buffer, tt_stash *stash)
{
    tt_plan *plan = l->plan;
    int32_t *place =
        tt_arena_alloc(plan->arena, stash->n_places * (int64_t)sizeof(*place));
    if (place == NULL)
        return TT_ERR_NOMEM;
    for (int32_t p = 0; p < stash->n_places; p++) {
        tt_buffer copy = plan->buffer[buffer];
        copy.name =
            tt_arena_printf(plan->arena, "%s (older, %d)", copy.name, p + 1);
        if (copy.name == NULL)
            return TT_ERR_NOMEM;
        TT_TRY(tt__buffer_add(l, &copy, &place[p]));
        plan->stash_bytes += copy.bytes;
    }
    stash->place = place;
    return TT_OK;
}

// A stage without weights has versions in the table, and nothing of which there are any.
static bool keeps_any(const tt_plan *plan, int32_t stage)
{
    for (int32_t i = 0; i < plan->n_stashes; i++)
        if (plan->stash[i].stage == stage)
            return true;
    return false;
}

// Which place each row reads, or keeps what it replaces in.
static tt_status find_places(const tt__lower *l)
{
    tt_plan *plan = l->plan;
    int32_t n_stages = 1, at = 0;
    for (int32_t i = 0; i < l->n_rows; i++)
        if (l->row[i].stage >= n_stages)
            n_stages = l->row[i].stage + 1;
    int32_t *made = tt_arena_alloc(l->arena, n_stages * (int64_t)sizeof(*made));
    if (made == NULL)
        return TT_ERR_NOMEM;
    for (int32_t i = 0; i < l->n_rows; i++) {
        const tt_lower_row *row = &l->row[i];
        const int32_t places = l->n_versions[row->stage] - 1;
        const bool is_update = row->phase == TT_UPDATE;
        const int32_t age = made[row->stage] - row->version;
        made[row->stage] += is_update ? 1 : 0;
        if (age < 0 || age > places)
            return tt_fail(TT_ERR_ARG,
                           "row %d of the schedule reads weights that are %d "
                           "updates old, and %d versions are kept",
                           i, age, places + 1);
        if (at == plan->n_order || !tt__is_row(l, row, at))
            continue; // the stage has nothing to do in this phase
        if ((age > 0 || is_update) && keeps_any(plan, row->stage))
            plan->order[at].place = 1 + row->version % places;
        at++;
    }
    return TT_OK;
}

tt_status tt__stash_make(tt__lower *l)
{
    tt_plan *plan = l->plan;
    const int32_t n = plan->n_buffers;
    if (!l->is_endless)
        return TT_OK;
    bool *is_updated = tt_arena_alloc(l->arena, n + 1);
    plan->stash =
        tt_arena_alloc(plan->arena, (n + 1) * (int64_t)sizeof(*plan->stash));
    if (is_updated == NULL || plan->stash == NULL)
        return TT_ERR_NOMEM;
    mark_updated(plan, is_updated);
    for (int32_t b = 0; b < n; b++) {
        const int32_t stage = is_updated[b] ? reading_stage(plan, b) : -1;
        if (stage < 0 || l->n_versions[stage] == 1)
            continue;
        tt_stash *stash = &plan->stash[plan->n_stashes++];
        *stash = (tt_stash){
            .buffer = b, .stage = stage, .n_places = l->n_versions[stage] - 1};
        TT_TRY(add_places(l, b, stash));
        if (stash->n_places + 1 > plan->n_places)
            plan->n_places = stash->n_places + 1;
    }
    return find_places(l);
}
