// snapshot - all states of a job at once: into one block, and back from the two
// files of a checkpoint.

#include "base/alloc.h"
#include "train/tensors.h"

#include <string.h>

enum { ALIGN = 64, MAX_NAMED = 3 };

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
    int64_t largest = 0;
    tt_status status = TT_OK;
    for (int64_t i = 0; i < all->n; i++)
        if (all->v[i].is_split && all->v[i].bytes > largest)
            largest = all->v[i].bytes;
    char *room = tt_alloc_aligned(largest + ALIGN, ALIGN);
    if (room == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to send parts of a tensor");
    for (int64_t i = 0; i < all->n && status == TT_OK; i++)
        if (all->v[i].is_split)
            status = tt_tensor_read(exec, &all->v[i], room);
    tt_free_aligned(room);
    return status;
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
        TT_TRY(tt_tensor_read(exec, &all->v[i], at));
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

// ---- restoring -----------------------------------------------------------

typedef struct restoring {
    tt_exec *exec;
    const tt_tensors *all;
    const tt_safetensors *model, *optim;
    const char *name;
    tt_str *notes;
} restoring;

static const tt_safetensor *stored(const restoring *r, const tt_tensor *t)
{
    const tt_safetensors *file = tt_tensor_is_model(t) ? r->model : r->optim;
    return file == NULL ? NULL : tt_safetensors_find(file, t->name);
}

static tt_status check_form(const restoring *r, const tt_tensor *t,
                            const tt_safetensor *from)
{
    const char *dtype = tt_tensor_file_dtype(t->dtype);
    if (tt_tensor_has_shape(t, from) && strcmp(from->dtype, dtype) == 0)
        return TT_OK;
    tt_str here = {0}, there = {0};
    tt_tensor_print_shape(t->dim, t->ndim, &here);
    tt_tensor_print_shape(from->shape, from->ndim, &there);
    const tt_status status = tt_fail(
        TT_ERR_ARG, "%s: %s is %s %s, but the model wants %s %s", r->name,
        t->name, from->dtype, tt_str_text(&there), dtype, tt_str_text(&here));
    tt_str_fini(&here);
    tt_str_fini(&there);
    return status;
}

static tt_status check_known(const restoring *r, const tt_safetensors *file,
                             bool is_model)
{
    const int64_t n = file == NULL ? 0 : tt_safetensors_count(file);
    for (int64_t i = 0; i < n; i++) {
        const char *name = tt_safetensors_at(file, i)->name;
        const tt_tensor *t = tt_tensors_find(r->all, name);
        if (t == NULL || tt_tensor_is_model(t) != is_model)
            return tt_fail(TT_ERR_ARG, "%s has %s, which this model has not",
                           r->name, name);
    }
    return TT_OK;
}

static tt_status check_all(const restoring *r)
{
    int64_t n_missing = 0;
    for (int64_t i = 0; i < r->all->n; i++) {
        const tt_tensor *t = &r->all->v[i];
        const tt_safetensor *from = stored(r, t);
        if (from != NULL)
            TT_TRY(check_form(r, t, from));
        else if (tt_tensor_is_model(t) || r->notes == NULL)
            return tt_fail(TT_ERR_ARG, "%s lacks %s", r->name, t->name);
        else if (n_missing++ < MAX_NAMED)
            tt_str_addf(r->notes, "%s lacks %s, which starts anew.\n", r->name,
                        t->name);
    }
    if (n_missing > MAX_NAMED)
        tt_str_addf(r->notes, "%s lacks %lld more states, which start anew.\n",
                    r->name, (long long)(n_missing - MAX_NAMED));
    TT_TRY(check_known(r, r->model, true));
    return r->notes == NULL ? check_known(r, r->optim, false) : TT_OK;
}

// The state a tensor comes from: its own, or for a new average its weight's.
static const tt_safetensor *source_of(const restoring *r, const tt_tensor *t)
{
    const tt_safetensor *from = stored(r, t);
    if (from != NULL || t->role != TT_TENSOR_EMA)
        return from;
    for (int64_t i = 0; i < r->all->n; i++)
        if (r->all->v[i].val.id == t->of.id)
            return stored(r, &r->all->v[i]);
    return NULL;
}

// Rank 0 has the files and says which tensors they hold.
static tt_status restore(const restoring *r, char *buffer, bool *is_there)
{
    const tt_tensors *all = r->all;
    const bool is_first = tt_tensors_are_first(all);
    for (int64_t i = 0; i < all->n && is_first; i++)
        is_there[i] = source_of(r, &all->v[i]) != NULL;
    if (all->n > 0 && all->v[0].peers != NULL)
        TT_TRY(tt_peers_broadcast(all->v[0].peers, "checkpoint", is_there,
                                  all->n));
    for (int64_t i = 0; i < all->n; i++) {
        const tt_tensor *t = &all->v[i];
        if (!is_there[i])
            continue;
        if (is_first) // a file's data is not as aligned as kernels like it
            memcpy(buffer, source_of(r, t)->data, (size_t)t->bytes);
        TT_TRY(tt_tensor_hand_out(r->exec, t, buffer));
    }
    return TT_OK;
}

tt_status tt_tensors_restore(tt_exec *exec, const tt_tensors *all,
                             const tt_safetensors *model,
                             const tt_safetensors *optim, const char *name,
                             tt_str *notes)
{
    const restoring r = {exec, all, model, optim, name, notes};
    int64_t largest = 0;
    tt_status status = tt_tensors_are_first(all) ? check_all(&r) : TT_OK;
    if (all->n > 0 && all->v[0].peers != NULL)
        status = tt_peers_follow(all->v[0].peers, "checkpoint", status);
    TT_TRY(status);
    for (int64_t i = 0; i < all->n; i++)
        largest = all->v[i].bytes > largest ? all->v[i].bytes : largest;
    char *buffer = tt_alloc_aligned(largest + ALIGN, ALIGN);
    bool *is_there = tt_alloc(all->n + 1);
    status = buffer == NULL || is_there == NULL
                 ? tt_fail(TT_ERR_NOMEM, "no memory to restore %s", name)
                 : restore(&r, buffer, is_there);
    tt_free(is_there);
    tt_free_aligned(buffer);
    return status;
}
