// move_steps - steps within a segment move so that they wait for communication as late
// as they can.
//
//   update    what needs an earlier bucket of gradients runs earlier
//   readers   a sum that reads a reduce-scattered term, or the conversion of a
//             gathered weight, waits until a few more flights have begun
//
// Steps that touch the same buffer, one of them writing, keep their order.

#include "ops/ops.h"
#include "plan/flights.h"

enum { AHEAD = 3 }; // flights whose results nobody has read yet

static bool has_buffer(const tt_ref *ref, int32_t n, int32_t buffer)
{
    for (int32_t i = 0; i < n; i++)
        if (ref[i].buffer == buffer)
            return true;
    return false;
}

static bool writes_what_touches(const tt_step *a, const tt_step *b)
{
    for (int32_t i = 0; i < a->n_out; i++)
        if (a->out[i].buffer >= 0 &&
            (has_buffer(b->in, b->n_in, a->out[i].buffer) ||
             has_buffer(b->out, b->n_out, a->out[i].buffer)))
            return true;
    return false;
}

bool tt__steps_conflict(const tt_step *a, const tt_step *b)
{
    return writes_what_touches(a, b) || writes_what_touches(b, a);
}

// ---- the update --------------------------------------------------------------

// Per buffer: the latest bucket that its writer and its readers wait for. In the second
// pass, which goes backwards: the earliest bucket that later ones wait for.
typedef struct levels {
    int32_t *written, *read;
} levels;

static int32_t max(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static int32_t min(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t level_of(const levels *x, const tt_step *step, int32_t level)
{
    for (int32_t i = 0; i < step->n_in; i++)
        if (step->in[i].buffer >= 0)
            level = max(level, x->written[step->in[i].buffer]);
    for (int32_t i = 0; i < step->n_out; i++) {
        const int32_t b = step->out[i].buffer;
        if (b >= 0)
            level = max(level, max(x->written[b], x->read[b]));
    }
    for (int32_t i = 0; i < step->n_in; i++)
        if (step->in[i].buffer >= 0)
            x->read[step->in[i].buffer] =
                max(x->read[step->in[i].buffer], level);
    for (int32_t i = 0; i < step->n_out; i++)
        if (step->out[i].buffer >= 0)
            x->written[step->out[i].buffer] = level;
    return level;
}

// A step that waits for no bucket runs just before the first step that needs its result,
// so that the result takes no memory earlier.
static int32_t delayed(const levels *x, const tt_step *step, int32_t level,
                       bool may_wait)
{
    int32_t first = INT32_MAX;
    for (int32_t i = 0; i < step->n_in; i++)
        if (step->in[i].buffer >= 0)
            first = min(first, x->written[step->in[i].buffer]);
    for (int32_t i = 0; i < step->n_out; i++) {
        const int32_t b = step->out[i].buffer;
        if (b >= 0)
            first = min(first, min(x->written[b], x->read[b]));
    }
    if (level == 0 && first != INT32_MAX && may_wait)
        level = first;
    for (int32_t i = 0; i < step->n_in; i++)
        if (step->in[i].buffer >= 0)
            x->read[step->in[i].buffer] =
                min(x->read[step->in[i].buffer], level);
    for (int32_t i = 0; i < step->n_out; i++)
        if (step->out[i].buffer >= 0)
            x->written[step->out[i].buffer] =
                min(x->written[step->out[i].buffer], level);
    return level;
}

// The bucket of a step that reduces gradients, counted from 1; 0: none.
static int32_t bucket_of(const tt__trips *t, int32_t step)
{
    for (int32_t i = 0; i < t->n; i++)
        if (t->trip[i].step == step)
            return t->trip[i].bucket + 1;
    return 0;
}

static void find_levels(const tt__trips *t, const tt_segment *segment,
                        const levels *x, int32_t *level)
{
    const tt_plan *plan = t->l->plan;
    int32_t across = 0; // what stages say to each other keeps its order
    for (int32_t s = 0; s < segment->n; s++) {
        const tt_step *step = &plan->step[segment->first + s];
        int32_t own = tt_op_is_collective(step->op)
                          ? bucket_of(t, segment->first + s)
                          : 0;
        if (tt__is_across_stages(plan->graph, step))
            own = max(own, across);
        level[s] = level_of(x, step, own);
        if (tt__is_across_stages(plan->graph, step))
            across = level[s];
    }
    for (int32_t b = 0; b < plan->n_buffers; b++)
        x->written[b] = x->read[b] = INT32_MAX;
    for (int32_t s = segment->n - 1; s >= 0; s--) {
        const tt_step *step = &plan->step[segment->first + s];
        level[s] = delayed(x, step, level[s],
                           !tt__is_across_stages(plan->graph, step));
    }
}

static tt_status sort_update(tt__trips *t, const tt_segment *segment)
{
    tt_plan *plan = t->l->plan;
    const int64_t words = plan->n_buffers * (int64_t)sizeof(int32_t);
    const levels x = {tt_arena_alloc(t->l->arena, words),
                      tt_arena_alloc(t->l->arena, words)};
    const tt_step *old = tt_arena_copy(t->l->arena, &plan->step[segment->first],
                                       segment->n * (int64_t)sizeof(*old));
    int32_t *level =
        tt_arena_alloc(t->l->arena, segment->n * (int64_t)sizeof(*level));
    if (x.written == NULL || x.read == NULL || old == NULL || level == NULL)
        return TT_ERR_NOMEM;
    find_levels(t, segment, &x, level);
    int32_t to = segment->first;
    for (int32_t b = 0; b <= t->n_buckets; b++)
        for (int32_t s = 0; s < segment->n; s++)
            if (level[s] == b)
                plan->step[to++] = old[s];
    return TT_OK;
}

// ---- readers -----------------------------------------------------------------

typedef struct held {
    tt_plan *plan;
    tt_step *waiting; // oldest first
    int64_t *bytes;   // of the collective whose result it reads
    int32_t n;
    int64_t sum;
    int32_t to; // where the next step goes
} held;

static void let_go(held *h, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        h->plan->step[h->to++] = h->waiting[i];
        h->sum -= h->bytes[i];
    }
    h->n -= n;
    for (int32_t i = 0; i < h->n; i++) {
        h->waiting[i] = h->waiting[i + n];
        h->bytes[i] = h->bytes[i + n];
    }
}

// The collective whose result this step may read later than its place; NULL: none.
static const tt_op_def *can_wait_for(const tt_segment *segment,
                                     const tt_step *step)
{
    if (segment->phase == TT_UPDATE)
        return step->node < 0 ? &tt_op_all_gather : NULL;
    return (step->op->flags & TT_OP_ACCUMULATE) != 0 ? &tt_op_reduce_scatter
                                                     : NULL;
}

// Who wrote a buffer last, before step `s`; NULL: nobody here.
static const tt_step *writer_of(const tt_step *step, int32_t s, int32_t buffer)
{
    while (s-- > 0)
        if (has_buffer(step[s].out, step[s].n_out, buffer))
            return &step[s];
    return NULL;
}

// The collective step whose result step `s` reads and may read later; NULL: none.
static const tt_step *waits_for(const tt_segment *segment, const tt_step *step,
                                int32_t s)
{
    const tt_op_def *op = can_wait_for(segment, &step[s]);
    for (int32_t i = 0; i < step[s].n_in && op != NULL; i++) {
        const tt_step *writer = writer_of(step, s, step[s].in[i].buffer);
        if (writer != NULL && writer->op == op)
            return writer;
    }
    return NULL;
}

// Bytes of results that nobody has read yet: as much as a few flights bring.
static int64_t most_waiting(const tt__trips *t, const tt_segment *segment)
{
    const tt_plan *plan = t->l->plan;
    int64_t all = 0, largest = 0;
    for (int32_t s = segment->first; s < segment->first + segment->n; s++) {
        const tt_step *step = &plan->step[s];
        if (step->op != &tt_op_all_gather && !tt__is_scatter(step))
            continue;
        all += step->moved_bytes;
        largest = step->moved_bytes > largest ? step->moved_bytes : largest;
    }
    const int64_t full = tt__scatter_full(t->l, all);
    return AHEAD * (full > largest ? full : largest);
}

static tt_status hold_readers(tt__trips *t, const tt_segment *segment)
{
    tt_plan *plan = t->l->plan;
    const int64_t n = segment->n;
    held h = {.plan = plan, .to = segment->first};
    const int64_t most = most_waiting(t, segment);
    const tt_step *old = tt_arena_copy(t->l->arena, &plan->step[segment->first],
                                       n * (int64_t)sizeof(*old));
    h.waiting = tt_arena_alloc(t->l->arena, n * (int64_t)sizeof(*h.waiting));
    h.bytes = tt_arena_alloc(t->l->arena, n * (int64_t)sizeof(*h.bytes));
    if (old == NULL || h.waiting == NULL || h.bytes == NULL)
        return TT_ERR_NOMEM;
    for (int32_t s = 0; s < segment->n; s++) {
        int32_t n_first = h.n;
        while (n_first > 0 &&
               !tt__steps_conflict(&h.waiting[n_first - 1], &old[s]))
            n_first--;
        let_go(&h, n_first);
        const tt_step *writer = waits_for(segment, old, s);
        if (writer == NULL) {
            plan->step[h.to++] = old[s];
            continue;
        }
        h.waiting[h.n] = old[s];
        h.bytes[h.n++] = writer->moved_bytes;
        h.sum += writer->moved_bytes;
        while (h.sum > most && h.n > 1)
            let_go(&h, 1);
    }
    let_go(&h, h.n);
    return TT_OK;
}

tt_status tt__steps_reorder(tt__trips *t)
{
    const tt_plan *plan = t->l->plan;
    for (int32_t i = 0; i < plan->n_segments && t->n > 0; i++) {
        const tt_segment *segment = &plan->segment[i];
        if (segment->phase == TT_UPDATE)
            TT_TRY(sort_update(t, segment));
        TT_TRY(hold_readers(t, segment));
    }
    return TT_OK;
}
