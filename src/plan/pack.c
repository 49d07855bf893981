// pack - offsets in the arena. Persistent buffers come first, one after the other;
// before all others the rows of sums that are reduced over ranks as one.
// The others share the rest: the largest first, each into the smallest gap that
// is free during its whole life.
//
// Two orders are tried and the smaller result wins. Kernels need not write all of
// their scratch memory, so the highest byte should belong to another buffer: then
// the peak can be seen in memory afterwards.

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

// Places `x` among the items placed[0..n), which are in the order of offsets, and
// inserts it there.
static void place(item *x, item **placed, int32_t n)
{
    int64_t end = 0, best = -1, best_gap = INT64_MAX;
    for (int32_t i = 0; i < n; i++) {
        const item *p = placed[i];
        if (p->first > x->last || p->last < x->first)
            continue;
        const int64_t gap = p->offset - end;
        if (gap >= x->bytes && gap < best_gap) {
            best = end;
            best_gap = gap;
        }
        if (align_up(p->offset + p->bytes) > end)
            end = align_up(p->offset + p->bytes);
    }
    x->offset = best >= 0 ? best : end;
    int32_t at = n;
    for (; at > 0 && placed[at - 1]->offset > x->offset; at--)
        placed[at] = placed[at - 1];
    placed[at] = x;
}

// Returns the bytes needed.
static int64_t place_all(item *items, item **placed, int32_t n)
{
    int64_t peak = 0;
    for (int32_t i = 0; i < n; i++) {
        place(&items[i], placed, i);
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

// What is reduced as one lies in a row, before all else; then other gradients that
// go to other ranks.
static int64_t pack_shared(tt_plan *plan, bool *is_placed)
{
    int64_t end = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t f = 0; f < plan->n_flights; f++) {
            const tt_flight *flight = &plan->flight[f];
            for (int32_t i = 0; i < flight->n; i++) {
                const int32_t s = plan->member[flight->first + i];
                const int32_t id = plan->step[s].in[0].buffer;
                tt_buffer *b = &plan->buffer[id];
                if (is_placed[id] || flight->is_joined != (pass == 0) ||
                    b->class_ != TT_PERSISTENT ||
                    (pass == 1 && b->use != TT_USE_GRAD))
                    continue;
                append(b, &end);
                is_placed[id] = true;
            }
        }
    return end;
}

static int64_t pack_persistent(tt_plan *plan, bool *is_placed)
{
    int64_t end = pack_shared(plan, is_placed);
    plan->shared_bytes = align_up(end);
    for (int32_t i = 0; i < plan->n_buffers; i++)
        if (plan->buffer[i].class_ == TT_PERSISTENT && !is_placed[i])
            append(&plan->buffer[i], &end);
    return end;
}

static int32_t collect(const tt__lower *l, item *items)
{
    int32_t n = 0;
    for (int32_t i = 0; i < l->plan->n_buffers; i++) {
        const tt_buffer *b = &l->plan->buffer[i];
        if (b->class_ == TT_PERSISTENT || b->first < 0)
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

tt_status tt__pack(tt__lower *l)
{
    tt_plan *plan = l->plan;
    const int64_t bytes = (plan->n_buffers + 1) * (int64_t)sizeof(item);
    item *a = tt_arena_alloc(l->arena, bytes);
    item *b = tt_arena_alloc(l->arena, bytes);
    item **placed = tt_arena_alloc(l->arena, (plan->n_buffers + 1) *
                                                 (int64_t)sizeof(*placed));
    bool *is_placed = tt_arena_alloc(l->arena, plan->n_buffers + 1);
    if (a == NULL || b == NULL || placed == NULL || is_placed == NULL)
        return TT_ERR_NOMEM;
    const int32_t n = collect(l, a);
    (void)collect(l, b);
    qsort(a, (size_t)n, sizeof(*a), by_size);
    qsort(b, (size_t)n, sizeof(*b), by_kind_then_size);
    const int64_t peak_a = place_all(a, placed, n);
    const int64_t peak_b = place_all(b, placed, n);
    const bool use_a = peak_a < peak_b && is_top_written(a, n, peak_a);
    const item *chosen = use_a ? a : b;
    plan->persistent_bytes = pack_persistent(plan, is_placed);
    const int64_t base = align_up(plan->persistent_bytes);
    for (int32_t i = 0; i < n; i++)
        plan->buffer[chosen[i].id].offset = base + chosen[i].offset;
    plan->peak_bytes =
        n == 0 ? plan->persistent_bytes : base + (use_a ? peak_a : peak_b);
    return TT_OK;
}
