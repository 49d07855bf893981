// hog_state - the model of workers that share weights, and what a checkpoint has of them:
// the words of all copies, after what all workers have.

#include "job/dynamic/hog.h"

#include <string.h>

void tt__hog_model(const tt_dynamic *d, void *model)
{
    const tt__hog *h = d->hog;
    tt_shared_read(&h->copy[0], model);
    for (int32_t i = 1; i < h->n_copies; i++) {
        tt_shared_read(&h->copy[i], d->crowd->room);
        tt_vector_add(&d->all, 1, d->crowd->room, model);
    }
    if (h->n_copies > 1)
        tt_vector_scale(&d->all, 1.0 / h->n_copies, model);
}

int64_t tt__hog_bytes(const tt_dynamic *d)
{
    return d->hog->n_copies * tt_shared_bytes(&d->hog->copy[0]);
}

// Versions begin at 0 when a run goes on, so ages are kept.
void tt__hog_note_ages(const tt_dynamic *d)
{
    for (int32_t i = 0; i < d->workers; i++)
        d->crowd->rules.worker[i].since =
            atomic_load(&tt__hog_version(d, i)->v) -
            atomic_load(&d->hog->seen[i].v);
}

void tt__hog_save(const tt_dynamic *d, tt_str *out)
{
    for (int32_t i = 0; i < d->hog->n_copies; i++)
        tt_str_add_bytes(out, d->hog->copy[i].words,
                         tt_shared_bytes(&d->hog->copy[i]));
}

tt_status tt__hog_load(tt_dynamic *d, const char *bytes)
{
    const int64_t each = tt_shared_bytes(&d->hog->copy[0]);
    double met = 0;
    if (tt_peers_is_first(&d->job->peers)) {
        for (int32_t i = 0; i < d->hog->n_copies; i++)
            memcpy(d->hog->copy[i].words, bytes + i * each, (size_t)each);
        for (int32_t i = 0; i < d->workers; i++)
            atomic_store(&d->hog->seen[i].v, -d->crowd->rules.worker[i].since);
    }
    d->hog->elapsed = d->drawn.now;
    for (int32_t i = 0; i < d->n_own; i++)
        d->hog->got[i] = d->drawn.now;
    return tt__post_sum(d, &met, 1); // before anybody adds to them
}
