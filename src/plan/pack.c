// pack - offsets in the arena.
//
// The problem. Hundreds of buffers live at different times. They should take hardly
// more memory than what lives at the worst moment. Besides, gradients of a bucket
// should lie side by side, and what peers read should lie in memory that they see.
//
// The idea. Persistent buffers lie one after another. For all others it is the
// packing of rectangles (lifetime x bytes) into a strip: the largest first, each into
// the smallest gap that is free during its whole life (best fit).
//
//   offset
//     ^   +----------------------------------------+
//     |   |    a    |      |       d        |      |   short lifetimes share memory
//     |   |---------+  c   +----------------+------|
//     |   |    b           |        e              |
//     |   +----------------------------------------+   <- end of the persistent buffers
//     |   |  weights, optimiser state              |
//     |   +- - - - - - - - - - - - - - - - - - - - +   <- the wall: shared_bytes
//     |   |  what flights read (shorter lives)     |
//     |   |  | g0 | g1 | g2 |  rows of gradients   |   a bucket is one message
//     +---+----------------------------------------+---> steps
//
// The arena has two parts. In front, up to the wall, lies what flights read: rows of
// gradients that are reduced as one (`pack_rows`), other persistent buffers, then those
// with shorter lives. The rest follows. No buffer crosses the wall, but gaps in front
// of it serve everybody. Short-lived buffers are in front only while the peak grows by
// 2% at most (`pack_cheaply`): sending them without a copy is worth that, not more.
//
// Two orders are tried and the smaller result wins. Kernels need not write all of
// their scratch memory, so the highest byte should belong to another buffer: then the
// peak can be seen in memory afterwards (tt_exec_peak_used).
//
//   cost    n^2 for n buffers
//   left    optimal packing. How much is lost is in the memory table's row `gaps`

#include "ops/ops.h"
#include "plan/lower.h"

#include <stdlib.h>

enum { ALIGN = 64 };

static int64_t align_up(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

typedef struct item {
    int32_t id, first, last;
    int64_t bytes, offset;
    bool is_kernel_scratch;
} item;

static int by_size(const void *pa, const void *pb)
{
    const item *a = pa, *b = pb;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->id < b->id ? -1 : 1;
}

static int by_kind_then_size(const void *pa, const void *pb)
{
    const item *a = pa, *b = pb;
    if (a->is_kernel_scratch != b->is_kernel_scratch)
        return a->is_kernel_scratch ? -1 : 1;
    return by_size(pa, pb);
}

typedef struct gap {
    int64_t at, bytes; // at -1: none
} gap;

static void try_gap(gap *best, int64_t from, int64_t to, int64_t wanted)
{
    if (to - from >= wanted && to - from < best->bytes)
        *best = (gap){from, to - from};
}

// Places `x` among the items placed[0..n), which are in the order of offsets, and
// inserts it there. Nothing lies on both sides of the wall.
static void place(item *x, item **placed, int32_t n, int64_t wall)
{
    gap best = {-1, INT64_MAX};
    int64_t end = 0;
    for (int32_t i = 0; i < n; i++) {
        const item *p = placed[i];
        if (p->first > x->last || p->last < x->first)
            continue;
        if (end < wall && wall < p->offset) {
            try_gap(&best, end, wall, x->bytes);
            end = wall;
        }
        try_gap(&best, end, p->offset, x->bytes);
        if (align_up(p->offset + p->bytes) > end)
            end = align_up(p->offset + p->bytes);
    }
    try_gap(&best, end, wall, x->bytes);
    x->offset = best.at >= 0 ? best.at : end > wall ? end : wall;
    int32_t at = n;
    for (; at > 0 && placed[at - 1]->offset > x->offset; at--)
        placed[at] = placed[at - 1];
    placed[at] = x;
}

// Places items beside the `n_placed` that are; returns the bytes needed.
static int64_t place_all(item *items, int32_t n, item **placed,
                         int32_t n_placed, int64_t wall)
{
    int64_t peak = wall;
    for (int32_t i = 0; i < n; i++) {
        place(&items[i], placed, n_placed + i, wall);
        if (items[i].offset + items[i].bytes > peak)
            peak = items[i].offset + items[i].bytes;
    }
    return peak;
}

static bool is_top_written(const item *items, int32_t n, int64_t peak)
{
    for (int32_t i = 0; i < n; i++)
        if (!items[i].is_kernel_scratch &&
            items[i].offset + items[i].bytes == peak)
            return true;
    return false;
}

static void append(tt_buffer *b, int64_t *end)
{
    b->offset = align_up(*end);
    *end = b->offset + b->bytes;
}

// ---- what peers should see -----------------------------------------------

// Marks what flights read, and where all-reduces write.
static void mark_shared(const tt_plan *plan, bool *is_shared)
{
    for (int32_t m = 0; m < plan->n_members; m++) {
        const tt_step *step = &plan->step[plan->member[m]];
        if (step->in[0].buffer >= 0)
            is_shared[step->in[0].buffer] = true;
        if (step->op == &tt_op_all_reduce && step->out[0].buffer >= 0)
            is_shared[step->out[0].buffer] = true;
    }
}

// Gradients that are reduced as one message lie side by side.
static void pack_rows(tt_plan *plan, bool *is_placed, int64_t *end)
{
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        for (int32_t i = 0; i < flight->n && flight->is_joined; i++) {
            const int32_t s = plan->member[flight->first + i];
            const int32_t id = plan->step[s].in[0].buffer;
            if (!is_placed[id])
                append(&plan->buffer[id], end);
            is_placed[id] = true;
        }
    }
}

static void pack_persistent(tt_plan *plan, const bool *is_shared, bool shared,
                            bool *is_placed, int64_t *end)
{
    for (int32_t i = 0; i < plan->n_buffers; i++)
        if (plan->buffer[i].class_ == TT_PERSISTENT && !is_placed[i] &&
            !plan->buffer[i].on_host && is_shared[i] == shared) {
            append(&plan->buffer[i], end);
            is_placed[i] = true;
        }
}

// ---- by lifetime ---------------------------------------------------------

static int32_t collect(const tt__lower *l, const bool *is_shared, bool shared,
                       item *items)
{
    const bool has_slots = l->plan->n_slots > 1; // packed apart
    int32_t n = 0;
    for (int32_t i = 0; i < l->plan->n_buffers; i++) {
        const tt_buffer *b = &l->plan->buffer[i];
        if (b->class_ == TT_PERSISTENT || b->first < 0 || b->on_host ||
            is_shared[i] != shared || (has_slots && b->class_ == TT_SLOT))
            continue;
        items[n++] = (item){
            .id = i,
            .first = b->first,
            .last = b->last,
            .bytes = b->bytes,
            .is_kernel_scratch = l->buffer[i].is_kernel_scratch,
        };
    }
    return n;
}

typedef struct packing {
    item **placed; // all, by offset
    int32_t n;
    int64_t wall, peak;
    bool is_top_written;
} packing;

// Places the other buffers around those that peers see, kernels' scratch first or not.
static tt_status place_others(tt__lower *l, const bool *is_shared,
                              const packing *shared, bool by_kind, packing *out)
{
    const int64_t n = l->plan->n_buffers;
    item *items = tt_arena_alloc(l->arena, n * (int64_t)sizeof(item));
    *out = *shared;
    out->placed =
        tt_arena_copy(l->arena, shared->placed, n * (int64_t)sizeof(item *));
    if (items == NULL || out->placed == NULL)
        return TT_ERR_NOMEM;
    const int32_t n_items = collect(l, is_shared, false, items);
    qsort(items, (size_t)n_items, sizeof(item),
          by_kind ? by_kind_then_size : by_size);
    out->peak = place_all(items, n_items, out->placed, shared->n, shared->wall);
    out->is_top_written = is_top_written(items, n_items, out->peak);
    out->n += n_items;
    return TT_OK;
}

// Gaps between buffers that peers see serve the others too.
static tt_status pack_passing(tt__lower *l, const bool *is_shared,
                              packing *best_out)
{
    const int64_t n = l->plan->n_buffers;
    packing shared = {
        .placed = tt_arena_alloc(l->arena, n * (int64_t)sizeof(item *))};
    packing a, b;
    item *items = tt_arena_alloc(l->arena, n * (int64_t)sizeof(item));
    if (items == NULL || shared.placed == NULL)
        return TT_ERR_NOMEM;
    shared.n = collect(l, is_shared, true, items);
    qsort(items, (size_t)shared.n, sizeof(item), by_size);
    shared.wall = align_up(place_all(items, shared.n, shared.placed, 0, 0));
    TT_TRY(place_others(l, is_shared, &shared, false, &a));
    TT_TRY(place_others(l, is_shared, &shared, true, &b));
    *best_out = a.peak < b.peak && a.is_top_written ? a : b;
    return TT_OK;
}

// Takes the largest of the short-lived buffers out of the shared part. False when there
// are none.
static bool hide_largest(const tt_plan *plan, bool *is_shared)
{
    int64_t largest = 0;
    for (int32_t i = 0; i < plan->n_buffers; i++) {
        const tt_buffer *b = &plan->buffer[i];
        if (is_shared[i] && b->class_ != TT_PERSISTENT && b->bytes > largest)
            largest = b->bytes;
    }
    for (int32_t i = 0; i < plan->n_buffers; i++) {
        const tt_buffer *b = &plan->buffer[i];
        if (b->class_ != TT_PERSISTENT && b->bytes == largest)
            is_shared[i] = false;
    }
    return largest > 0;
}

// Sharing short-lived buffers may cost a little memory. The largest are taken out until
// it costs no more than `dear`.
static tt_status pack_cheaply(tt__lower *l, bool *is_shared, packing *out)
{
    const double dear = 1.02;
    enum { TRIES = 3 };
    packing apart;
    bool *none = tt_arena_copy(l->arena, is_shared, l->plan->n_buffers);
    if (none == NULL)
        return TT_ERR_NOMEM;
    while (hide_largest(l->plan, none))
        continue;
    TT_TRY(pack_passing(l, none, &apart));
    for (int t = 0; t < TRIES; t++) {
        TT_TRY(pack_passing(l, is_shared, out));
        if ((double)out->peak <= dear * (double)apart.peak ||
            !hide_largest(l->plan, is_shared))
            return TT_OK;
    }
    *out = apart;
    return TT_OK;
}

// The slots of a pipeline: one layout, as often as micro-batches are in flight. Segments
// of one micro-batch run in the order of steps, so lifetimes hold within a slot.
static tt_status pack_slots(tt__lower *l, int64_t *end)
{
    tt_plan *plan = l->plan;
    const int64_t n = plan->n_buffers;
    item *items = tt_arena_alloc(l->arena, n * (int64_t)sizeof(item));
    item **placed = tt_arena_alloc(l->arena, n * (int64_t)sizeof(item *));
    int32_t n_items = 0;
    if (items == NULL || placed == NULL)
        return TT_ERR_NOMEM;
    for (int32_t i = 0; i < n; i++) {
        const tt_buffer *b = &plan->buffer[i];
        if (b->class_ == TT_SLOT && b->first >= 0 && !b->on_host)
            items[n_items++] = (item){
                .id = i, .first = b->first, .last = b->last, .bytes = b->bytes};
    }
    qsort(items, (size_t)n_items, sizeof(item), by_size);
    plan->slot_bytes = align_up(place_all(items, n_items, placed, 0, 0));
    for (int32_t i = 0; i < n_items; i++)
        plan->buffer[items[i].id].offset = align_up(*end) + items[i].offset;
    *end = align_up(*end) + plan->n_slots * plan->slot_bytes;
    return TT_OK;
}

// The host's arena: persistent buffers, then the others by lifetime, as often as there
// are slots.
static tt_status pack_host(tt__lower *l)
{
    tt_plan *plan = l->plan;
    const int64_t n = plan->n_buffers;
    item *items = tt_arena_alloc(l->arena, n * (int64_t)sizeof(item));
    item **placed = tt_arena_alloc(l->arena, n * (int64_t)sizeof(item *));
    int64_t end = 0;
    int32_t n_items = 0;
    if (items == NULL || placed == NULL)
        return TT_ERR_NOMEM;
    for (int32_t i = 0; i < n; i++) {
        tt_buffer *b = &plan->buffer[i];
        if (b->on_host && b->class_ == TT_PERSISTENT)
            append(b, &end);
        else if (b->on_host && b->first >= 0) {
            b->class_ = plan->n_slots > 1 ? TT_SLOT : b->class_;
            items[n_items++] = (item){
                .id = i, .first = b->first, .last = b->last, .bytes = b->bytes};
        }
    }
    qsort(items, (size_t)n_items, sizeof(item), by_size);
    const int64_t passing = place_all(items, n_items, placed, 0, 0);
    for (int32_t i = 0; i < n_items; i++)
        plan->buffer[items[i].id].offset = align_up(end) + items[i].offset;
    if (plan->n_slots > 1)
        plan->host_slot_bytes = align_up(passing);
    plan->host_bytes = passing == 0
                           ? end
                           : align_up(end) + passing +
                                 (plan->n_slots - 1) * plan->host_slot_bytes;
    return TT_OK;
}

tt_status tt__pack(tt__lower *l)
{
    tt_plan *plan = l->plan;
    bool *is_placed = tt_arena_alloc(l->arena, plan->n_buffers);
    bool *is_shared = tt_arena_alloc(l->arena, plan->n_buffers);
    int64_t end = 0;
    packing passing;
    if (is_placed == NULL || is_shared == NULL)
        return TT_ERR_NOMEM;
    if (plan->n_slots == 1) // each slot has its own messages
        mark_shared(plan, is_shared);
    TT_TRY(pack_cheaply(l, is_shared, &passing));
    pack_rows(plan, is_placed, &end);
    pack_persistent(plan, is_shared, true, is_placed, &end);
    const int64_t first = align_up(end); // of those that peers see
    plan->shared_bytes = end = first + passing.wall;
    pack_persistent(plan, is_shared, false, is_placed, &end);
    plan->persistent_bytes = end;
    if (plan->n_slots > 1)
        TT_TRY(pack_slots(l, &end));
    const int64_t second = align_up(end) - passing.wall; // after the wall
    for (int32_t i = 0; i < passing.n; i++) {
        const item *x = passing.placed[i];
        plan->buffer[x->id].offset =
            (x->offset < passing.wall ? first : second) + x->offset;
    }
    plan->peak_bytes =
        passing.peak > passing.wall ? second + passing.peak : end;
    return pack_host(l);
}
