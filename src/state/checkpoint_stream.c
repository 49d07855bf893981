// checkpoint_stream - see the header.
//
// The usual checkpoint is a snapshot: rank 0 holds all states in memory, and a
// thread writes them while training goes on. With ZeRO or tensor parallelism rank
// 0's own part may be small and the whole may not fit. Here rank 0 has room for one
// tensor: it gathers, writes, and gathers the next. All ranks wait for the disk,
// which is the price.
//
// Every rank knows the order of tensors in the files, so no message says which
// tensor is next. This order is the file's: a safetensors file begins with a header
// of all offsets, so tensors must be written in the order of the header.
//
// Ranks must stay in step when the disk fails. Rank 0 then keeps gathering what it
// cannot write, because the others will send it anyway. Only a failed gather means
// that ranks have lost each other (is_torn_out).

#include "state/checkpoint_stream.h"

#include "base/alloc.h"

#include <stdlib.h>

enum { ALIGN = 64 };

typedef struct entry { // `file` comes first: tt_safetensors_order compares it
    tt_safetensor file;
    const tt_tensor *tensor;
} entry;

typedef struct stream {
    tt_exec *exec;
    int64_t n, n_model, next;
    entry *v; // model, then optimiser, each in the order of its file
    tt_safetensor *files;
    char *room; // on rank 0: the tensor that is being written
    tt_status torn;
} stream;

static void list(const tt_tensors *all, bool is_model, stream *s)
{
    const int64_t first = s->n;
    for (int64_t i = 0; i < all->n; i++) {
        const tt_tensor *t = &all->v[i];
        if (tt_tensor_is_model(t) == is_model)
            s->v[s->n++] = (entry){{.name = t->name,
                                    .dtype = tt_tensor_file_dtype(t->dtype),
                                    .ndim = t->ndim,
                                    .shape = t->dim,
                                    .bytes = t->bytes},
                                   t};
    }
    if (s->n > first)
        qsort(s->v + first, (size_t)(s->n - first), sizeof *s->v,
              tt_safetensors_order);
}

static tt_status make(tt_exec *exec, const tt_tensors *all, stream *s)
{
    int64_t largest = 0;
    const bool is_first = tt_tensors_are_first(all);
    *s = (stream){.exec = exec};
    for (int64_t i = 0; i < all->n; i++)
        largest = all->v[i].bytes > largest ? all->v[i].bytes : largest;
    s->v = tt_alloc((all->n + 1) * (int64_t)sizeof *s->v);
    s->files = tt_alloc((all->n + 1) * (int64_t)sizeof *s->files);
    if (is_first)
        s->room = tt_alloc_aligned(largest + ALIGN, ALIGN);
    if (s->v == NULL || s->files == NULL || (is_first && s->room == NULL))
        return tt_fail(TT_ERR_NOMEM, "no memory to save tensors");
    list(all, true, s);
    s->n_model = s->n;
    list(all, false, s);
    for (int64_t i = 0; i < s->n; i++)
        s->files[i] = s->v[i].file;
    return TT_OK;
}

static void stream_fini(stream *s)
{
    tt_free(s->v);
    tt_free(s->files);
    tt_free_aligned(s->room);
}

// All ranks gather in the order of the files, so the tensor is known.
static tt_status fetch(void *user, const tt_safetensor *tensor,
                       const void **data_out)
{
    stream *s = user;
    (void)tensor;
    s->torn = tt_tensor_gather(s->exec, s->v[s->next++].tensor, TT_FIRST_COPY,
                               s->room);
    *data_out = s->room;
    return s->torn;
}

static tt_status write_all(stream *s, tt_checkpoints *store,
                           const tt_checkpoint_content *content)
{
    tt_checkpoint_content c = *content;
    c.model = s->files;
    c.n_model = s->n_model;
    c.optim = s->files + s->n_model;
    c.n_optim = s->n - s->n_model;
    c.fetch = fetch;
    c.user = s;
    return tt_checkpoints_save_now(store, &c);
}

// Gathers the rest after a failure of the disk, so that all ranks stay in step. The
// error that is returned is the disk's.
static tt_status run(stream *s, bool is_first, tt_checkpoints *store,
                     const tt_checkpoint_content *content)
{
    const void *unused;
    const tt_status status = is_first ? write_all(s, store, content) : TT_OK;
    while (s->next < s->n && s->torn == TT_OK)
        (void)fetch(s, NULL, &unused);
    return s->torn != TT_OK ? s->torn : status;
}

tt_status tt_stream_save(tt_exec *exec, const tt_tensors *all,
                         tt_checkpoints *store,
                         const tt_checkpoint_content *content,
                         bool *is_torn_out)
{
    const tt_peers *peers = all->v[0].peers;
    stream s;
    tt_status status = tt_peers_agree(peers, "checkpoint", make(exec, all, &s));
    if (status == TT_OK)
        status = run(&s, tt_peers_is_first(peers), store, content);
    *is_torn_out = s.torn != TT_OK;
    stream_fini(&s);
    return status;
}
