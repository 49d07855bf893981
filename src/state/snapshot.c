// snapshot - a copy of all states of a job at one step, in one block of memory.
//
// A checkpoint takes seconds to write, and the next step overwrites the weights. So
// the states are copied first, and the writer works on the copy.
//
//   step N        tt_snapshot_begin: copies start          training
//   step N + 1    forward and backward hide the copies;    goes on
//                 the update waits until they are over
//   writer        tt_snapshot_wait, then writes            in its own thread
//
// Tensors that rank 0 holds whole leave in the background (a drain: a copy stream
// of the device, backend/drain.h). Tensors in parts are gathered from other ranks,
// while all ranks wait: that is for callers who wait anyway. Training uses spread.c,
// where nobody waits.

#include "base/alloc.h"
#include "state/tensors.h"

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

// The peers that take part; NULL if every rank holds every tensor whole.
static const tt_peers *helpers(const tt_tensors *all)
{
    for (int64_t i = 0; i < all->n; i++)
        if (all->v[i].is_split)
            return all->v[i].peers;
    return NULL;
}

// What other ranks do: they send their parts of each tensor to rank 0.
static tt_status help(tt_exec *exec, const tt_tensors *all)
{
    for (int64_t i = 0; i < all->n; i++)
        TT_TRY(tt_tensor_gather(exec, &all->v[i], TT_FIRST_COPY, NULL));
    return TT_OK;
}

tt_status tt_snapshot_list(const tt_tensors *all, tt_arena *arena,
                           tt_snapshot *s)
{
    return s->model == NULL ? make_lists(all, arena, s) : TT_OK;
}

static tt_status make_room(const tt_tensors *all, tt_arena *arena,
                           tt_snapshot *s)
{
    TT_TRY(tt_snapshot_list(all, arena, s));
    return tt__snapshot_room(s, tt_tensors_bytes(all));
}

// A tensor in parts is gathered, which waits. A whole one is copied while steps
// run.
static tt_status read_one(tt_exec *exec, const tt_tensor *t, void *to)
{
    return t->is_split ? tt_tensor_gather(exec, t, TT_FIRST_COPY, to)
                       : tt_exec_drain(exec, t->val, to);
}

static tt_status read_all(tt_exec *exec, const tt_tensors *all, tt_snapshot *s)
{
    char *at = s->memory;
    int64_t model = 0, optim = 0;
    TT_TRY(tt_exec_drain_begin(exec));
    for (int64_t i = 0; i < all->n; i++) {
        TT_TRY(read_one(exec, &all->v[i], at));
        entry_of(s, &all->v[i], &model, &optim)->data = at;
        at += padded(all->v[i].bytes);
    }
    s->exec = exec;
    return tt_exec_drain_end(exec);
}

tt_status tt_snapshot_begin(tt_exec *exec, const tt_tensors *all,
                            tt_arena *arena, tt_snapshot *s)
{
    const tt_peers *peers = helpers(all);
    const bool is_first = tt_tensors_are_first(all);
    tt_status status = is_first ? make_room(all, arena, s) : TT_OK;
    if (peers != NULL)
        status = tt_peers_follow(peers, "snapshot", status);
    if (status == TT_OK && is_first)
        status = read_all(exec, all, s);
    else if (status == TT_OK && peers != NULL)
        status = help(exec, all);
    return status;
}

tt_status tt_snapshot_wait(const tt_snapshot *snapshot)
{
    return snapshot->exec == NULL ? TT_OK : tt_exec_drain_wait(snapshot->exec);
}

tt_status tt_snapshot_take(tt_exec *exec, const tt_tensors *all,
                           tt_arena *arena, tt_snapshot *snapshot)
{
    TT_TRY(tt_snapshot_begin(exec, all, arena, snapshot));
    return tt_snapshot_wait(snapshot);
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
