// snapshot - all states of a job at once, in one block.

#include "base/alloc.h"
#include "train/tensors.h"

enum { ALIGN = 64 };

static int64_t padded(int64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

int64_t tt_tensors_bytes(const tt_tensors *all)
{
    int64_t bytes = 0;
    for (int64_t i = 0; i < all->n; i++)
        bytes += padded(all->v[i].bytes);
    return bytes;
}

// ---- taking --------------------------------------------------------------

static tt_status make_lists(const tt_tensors *all, tt_arena *arena,
                            tt_snapshot *s)
{
    s->model = tt_arena_alloc(arena, (all->n + 1) * (int64_t)sizeof *s->model);
    s->optim = tt_arena_alloc(arena, (all->n + 1) * (int64_t)sizeof *s->optim);
    if (s->model == NULL || s->optim == NULL)
        return TT_ERR_NOMEM;
    s->n_model = s->n_optim = 0;
    for (int64_t i = 0; i < all->n; i++) {
        const tt_tensor *t = &all->v[i];
        tt_safetensor *to = tt_tensor_is_model(t) ? &s->model[s->n_model++]
                                                  : &s->optim[s->n_optim++];
        *to = (tt_safetensor){.name = t->name,
                              .dtype = tt_tensor_file_dtype(t->dtype),
                              .ndim = t->ndim,
                              .shape = t->dim,
                              .bytes = t->bytes};
    }
    return TT_OK;
}

static tt_safetensor *entry_of(const tt_snapshot *s, const tt_tensor *t,
                               int64_t *model, int64_t *optim)
{
    return tt_tensor_is_model(t) ? &s->model[(*model)++]
                                 : &s->optim[(*optim)++];
}

// The ranks that must help: NULL where each has all of every tensor.
static const tt_peers *helpers(const tt_tensors *all)
{
    for (int64_t i = 0; i < all->n; i++)
        if (all->v[i].is_split)
            return all->v[i].peers;
    return NULL;
}

// What a rank that is not the first does: its parts are read.
static tt_status help(tt_exec *exec, const tt_tensors *all)
{
    for (int64_t i = 0; i < all->n; i++)
        TT_TRY(tt_tensor_gather(exec, &all->v[i], 0, NULL));
    return TT_OK;
}

static tt_status make_room(const tt_tensors *all, tt_arena *arena,
                           tt_snapshot *s)
{
    if (s->model == NULL)
        TT_TRY(make_lists(all, arena, s));
    s->bytes = tt_tensors_bytes(all);
    s->memory = tt_alloc_aligned(s->bytes + ALIGN, ALIGN);
    return s->memory != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM,
                         "no memory for a snapshot of %lld bytes of state",
                         (long long)s->bytes);
}

static tt_status read_all(tt_exec *exec, const tt_tensors *all, tt_snapshot *s)
{
    char *at = s->memory;
    int64_t model = 0, optim = 0;
    for (int64_t i = 0; i < all->n; i++) {
        TT_TRY(tt_tensor_gather(exec, &all->v[i], 0, at));
        entry_of(s, &all->v[i], &model, &optim)->data = at;
        at += padded(all->v[i].bytes);
    }
    return TT_OK;
}

tt_status tt_snapshot_take(tt_exec *exec, const tt_tensors *all,
                           tt_arena *arena, tt_snapshot *snapshot)
{
    tt_snapshot s = *snapshot;
    const tt_peers *peers = helpers(all);
    const bool is_first = tt_tensors_are_first(all);
    tt_status status = is_first ? make_room(all, arena, &s) : TT_OK;
    if (peers != NULL)
        status = tt_peers_follow(peers, "snapshot", status);
    const bool is_agreed = status == TT_OK;
    if (status == TT_OK && is_first)
        status = read_all(exec, all, &s);
    else if (status == TT_OK && peers != NULL)
        status = help(exec, all);
    if (status != TT_OK)
        tt_free_aligned(s.memory);
    else
        *snapshot = s;
    snapshot->is_torn = peers != NULL && is_agreed && status != TT_OK;
    return status;
}

void tt_snapshot_free(tt_snapshot *snapshot)
{
    tt_free_aligned(snapshot->memory);
    snapshot->memory = NULL;
}

tt_status tt_snapshot_put_back(tt_exec *exec, const tt_tensors *all,
                               const tt_snapshot *snapshot)
{
    int64_t model = 0, optim = 0;
    for (int64_t i = 0; i < all->n; i++)
        TT_TRY(tt_tensor_write(
            exec, &all->v[i],
            entry_of(snapshot, &all->v[i], &model, &optim)->data));
    return TT_OK;
}
