// checkpoint_stream - see the header. Every rank knows the order of the files, so nobody has to say
// which tensor is next; and who fails to write goes on to collect, so that all stay in
// step.

#include "state/checkpoint_stream.h"

#include "base/alloc.h"

#include <stdlib.h>

enum { ALIGN = 64 };

typedef struct
    entry { // begins as what is written, so that it is sorted like it
    tt_safetensor file;
    const tt_tensor *tensor;
} entry;

typedef struct stream {
    tt_exec *exec;
    int64_t n, n_model, next;
    entry *v; // model, then optimiser, each in the order of its file
    tt_safetensor *files;
    char *room; // rank 0's: for one tensor
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

static tt_status fetch(void *user, const void **data_out)
{
    stream *s = user;
    s->torn = tt_tensor_gather(s->exec, s->v[s->next++].tensor, 0, s->room);
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

// What rank 0 did not collect because it could not write it is collected still: its
// message is that of the first failure.
static tt_status run(stream *s, bool is_first, tt_checkpoints *store,
                     const tt_checkpoint_content *content)
{
    const void *unused;
    const tt_status status = is_first ? write_all(s, store, content) : TT_OK;
    while (s->next < s->n && s->torn == TT_OK)
        (void)fetch(s, &unused);
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
