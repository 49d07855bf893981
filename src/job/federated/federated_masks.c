// federated_masks - changes that rank 0 sees only as a sum: exchange/masks on flat vectors.
//
// A client weighs its change by its samples over those of the largest client, so that
// weights are at most 1, makes whole numbers of it and adds its masks. Rank 0 adds up, takes
// out what is left of masks, and goes on as if it had added changes.

#include "job/federated/federated.h"

#include <string.h>

static double element(const tt__federated *f, int64_t i)
{
    return f->update_span.is_wide ? ((const double *)f->update)[i]
                                  : (double)((const float *)f->update)[i];
}

// A change that has no place in the whole numbers is refused by its client.
void tt__federated_hide(tt__federated *f, int32_t i, tt__push_head *head)
{
    const double weight =
        tt__federated_weight(f, f->round.client[i].client) / f->heaviest;
    const int64_t n = f->update_span.n;
    if (head->v[TT_HEAD_REFUSED] != 0)
        return;
    for (int64_t k = 0; k < n; k++) {
        const double x = weight * element(f, k);
        if (!tt_masks_fits(x, f->round.n))
            head->v[TT_HEAD_REFUSED] = 1;
        f->hidden[k] = head->v[TT_HEAD_REFUSED] == 0 ? tt_masks_encode(x) : 0;
    }
    tt_masks_hide(&f->masks, i, f->hidden, n);
    head->v[TT_HEAD_BYTES] = head->v[TT_HEAD_REFUSED] == 0
                                 ? (double)(n * (int64_t)sizeof *f->hidden)
                                 : 0;
}

void tt__federated_add_hidden(tt__federated *f, int32_t i)
{
    f->is_there[i] = true;
    f->weight += tt__federated_weight(f, f->round.client[i].client);
    for (int64_t k = 0; k < f->update_span.n; k++)
        f->hidden_sum[k] += f->hidden[k];
}

static void add(const tt_vector_span *s, const uint64_t *from, double factor,
                void *to)
{
    for (int64_t k = 0; k < s->n; k++) {
        const double x = factor * tt_masks_decode(from[k]);
        if (s->is_wide)
            ((double *)to)[k] += x;
        else
            ((float *)to)[k] += (float)x;
    }
}

tt_status tt__federated_reveal(tt__federated *f, bool *is_enough_out)
{
    tt_dynamic *d = f->d;
    const double all =
        f->params->weights == TT_WEIGHTS_EQUAL ? d->workers : (double)f->total;
    int32_t n = 0;
    for (int32_t i = 0; i < f->round.n; i++)
        n += f->is_there[i];
    *is_enough_out = n >= f->masks.threshold;
    if (!*is_enough_out)
        return TT_OK;
    TT_TRY(tt_masks_reveal(&f->masks, f->is_there, f->hidden_sum,
                           f->update_span.n));
    add(&d->all, f->hidden_sum, f->heaviest, d->sum);
    if (f->control != NULL)
        add(&f->weights, f->hidden_sum + d->all.n, f->heaviest / all, f->moved);
    return TT_OK;
}
