// slices_read - reads a rank's parts of all tensors, from the file or from rank 0.
//
// Each tensor takes three steps: bytes as they are in the file (raw), the tensor's
// own type (own), and for a weight its copy in the compute precision (work).
// Buffers are made once, for the largest part.

#include "base/alloc.h"
#include "state/slices_parts.h"
#include "store/checksum.h"

#include <string.h>

enum { ALIGN = 64, WIDEST = 8 };

static bool is_handed_out(const tt__loading *l, const tt__slice_place *p)
{
    return p->file == TT__SLICE_MEMORY ||
           (l->is_hidden && p->file != TT__SLICE_NONE);
}

tt_status tt__slices_prepare(tt__loading *l)
{
    int64_t part = 0, whole = 0;
    const tt_tensors *all = l->s->all;
    for (int64_t i = 0; i < all->n; i++) {
        const tt_val v[] = {all->v[i].val, all->v[i].work};
        for (int k = 0; k < 2; k++) {
            const int64_t n =
                tt_is(v[k]) ? tt__rank_part_of(l->graph, v[k], l->rank).count
                            : 0;
            part = n > part ? n : part;
        }
        if (is_handed_out(l, &l->place[i]) && all->v[i].count > whole)
            whole = all->v[i].count;
    }
    l->raw = tt_alloc_aligned(part * WIDEST + ALIGN, ALIGN);
    l->own = tt_alloc_aligned(part * WIDEST + ALIGN, ALIGN);
    l->work = tt_alloc_aligned(part * WIDEST + ALIGN, ALIGN);
    l->whole =
        whole > 0 ? tt_alloc_aligned(whole * WIDEST + ALIGN, ALIGN) : NULL;
    l->sum = tt_alloc((2 * all->n + 1) * (int64_t)sizeof *l->sum);
    if (l->raw == NULL || l->own == NULL || l->work == NULL || l->sum == NULL ||
        (whole > 0 && l->whole == NULL))
        return tt_fail(TT_ERR_NOMEM, "no memory to read tensors");
    return TT_OK;
}

// Rank 0 has or reads the whole tensor and broadcasts it.
static tt_status hand_out(tt__loading *l, int64_t i)
{
    const tt_tensor *t = &l->s->all->v[i];
    const tt__slice_place *p = &l->place[i];
    const int64_t bytes = t->count * tt_dtype_bytes((tt_dtype)p->dtype);
    if (l->rank == 0 && p->file == TT__SLICE_MEMORY)
        memcpy(l->whole, l->s->from[i]->data, (size_t)bytes);
    else if (l->rank == 0)
        tt__slices_note(
            l, tt_span_read(&l->span[p->file], p->offset, bytes, l->whole),
            true);
    return l->peers == NULL
               ? TT_OK
               : tt_peers_broadcast(l->peers, t->name, l->whole, bytes);
}

static tt_status read_runs(tt__loading *l, const tt__rank_part *part,
                           const tt__slice_place *p, int64_t size)
{
    for (int64_t i = 0; i < part->count; i += part->run)
        TT_TRY(
            tt_span_read(&l->span[p->file],
                         p->offset + tt_local_to_global(&part->local, i) * size,
                         part->run * size, l->raw + i * size));
    return TT_OK;
}

// Reads a part into l->own, in the tensor's type, and adds its checksum to `sum`.
// The checksum is of the bytes in the file, before they are converted.
static void fetch(tt__loading *l, const tt_tensor *t, const tt__slice_place *p,
                  const tt__rank_part *part, uint64_t *sum)
{
    const tt_dtype dtype = (tt_dtype)p->dtype;
    const int64_t size = tt_dtype_bytes(dtype);
    if (is_handed_out(l, p))
        tt__rank_part_cut(part, size, l->whole, l->raw);
    else
        tt__slices_note(l, read_runs(l, part, p, size), true);
    for (int64_t i = 0; i < part->count && p->has_sum; i += part->run)
        *sum += tt_checksum(l->raw + i * size, part->run, size,
                            tt_local_to_global(&part->local, i));
    tt_tensor_convert(dtype, l->raw, t->dtype, l->own, part->count);
}

// Writes the copy of a weight in the compute precision. With ZeRO the copy may be
// split otherwise than the weight; then its part is read separately, with a sum of
// its own.
static tt_status take_work(tt__loading *l, const tt_tensor *t,
                           const tt__slice_place *p, const tt__rank_part *own,
                           uint64_t sum[2])
{
    const tt_dtype dtype = l->graph->value[t->work.id].type.dtype;
    const tt__rank_part part = tt__rank_part_of(l->graph, t->work, l->rank);
    if (!tt__rank_part_equal(&part, own)) {
        sum[1] = 0;
        fetch(l, t, p, &part, &sum[1]);
    }
    tt_tensor_convert(t->dtype, l->own, dtype, l->work, part.count);
    return part.local.is_absent ? TT_OK
                                : tt_exec_write(l->s->exec, t->work, l->work);
}

static tt_status take(tt__loading *l, int64_t i)
{
    const tt_tensor *t = &l->s->all->v[i];
    const tt__slice_place *p = &l->place[i];
    const tt__rank_part part = tt__rank_part_of(l->graph, t->val, l->rank);
    if (is_handed_out(l, p))
        TT_TRY(hand_out(l, i));
    fetch(l, t, p, &part, &l->sum[2 * i]);
    if (!part.local.is_absent)
        tt__slices_note(l, tt_exec_write(l->s->exec, t->val, l->own), false);
    l->sum[2 * i + 1] = l->sum[2 * i];
    if (tt_is(t->work))
        tt__slices_note(l, take_work(l, t, p, &part, &l->sum[2 * i]), false);
    return TT_OK;
}

tt_status tt__slices_take(tt__loading *l)
{
    for (int64_t i = 0; i < l->s->all->n; i++)
        if (l->place[i].file != TT__SLICE_NONE)
            TT_TRY(take(l, i));
    for (int64_t f = 0; f < l->n_files; f++)
        l->verdict.bytes_read += l->span[f].bytes_read;
    return TT_OK;
}
