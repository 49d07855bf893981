// slices_judge - compares the sums of what ranks have read with the sums that were
// saved. Every rank gets the sums of all ranks, so all come to the same verdict
// without another message.
//
// Several ranks may hold the same part, in several copies of the tensor. The sums
// are added per copy (tt__rank_part_group), and each copy must reach the saved sum.
// Ranks that hold nothing of it (other stages) have read nothing.

#include "base/alloc.h"
#include "state/slices_parts.h"

#include <string.h>

// `sum` is rank 0's entry for this value; the entry of rank r is r * stride
// further.
static bool adds_up(const tt__loading *l, tt_val v, uint64_t saved,
                    const uint64_t *sum, uint64_t *total)
{
    const int64_t stride = 2 * l->s->all->n;
    memset(total, 0, (size_t)l->size * sizeof *total);
    for (int32_t r = 0; r < l->size; r++)
        if (tt__rank_part_group(l->graph, v, r) != TT__RANK_ABSENT)
            total[tt__rank_part_group(l->graph, v, r)] += sum[r * stride];
    for (int32_t r = 0; r < l->size; r++)
        if (tt__rank_part_group(l->graph, v, r) == r && total[r] != saved)
            return false;
    return true;
}

static const char *find_damage(const tt__loading *l, const uint64_t *sum,
                               uint64_t *total)
{
    for (int64_t i = 0; i < l->s->all->n; i++) {
        const tt_tensor *t = &l->s->all->v[i];
        const tt__slice_place *p = &l->place[i];
        if (p->file < 0 || !p->has_sum)
            continue;
        if (!adds_up(l, t->val, p->sum, &sum[2 * i], total) ||
            (tt_is(t->work) &&
             !adds_up(l, t->work, p->sum, &sum[2 * i + 1], total)))
            return t->name;
    }
    return NULL;
}

tt_status tt__slices_check(const tt__loading *l, const char **damaged_out)
{
    const int64_t bytes = 2 * l->s->all->n * (int64_t)sizeof *l->sum;
    uint64_t *all = tt_alloc(l->size * bytes + 1);
    uint64_t *total = tt_alloc(l->size * (int64_t)sizeof *total);
    tt_status status = TT_OK;
    if (all == NULL || total == NULL)
        status = tt_fail(TT_ERR_NOMEM, "no memory to check tensors");
    else if (l->peers != NULL)
        status = tt_peers_collect(l->peers, TT__READING, l->sum, bytes, all);
    else
        memcpy(all, l->sum, (size_t)bytes);
    if (status == TT_OK)
        *damaged_out = find_damage(l, all, total);
    tt_free(all);
    tt_free(total);
    return status;
}
