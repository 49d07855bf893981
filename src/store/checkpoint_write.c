// checkpoint_write - the files of one checkpoint, hashed on their way to the disk.

#include "base/file.h"
#include "store/checkpoint_folder.h"
#include "store/safetensors_header.h"

#include <stddef.h>

typedef struct writer {
    tt_file file;
    tt_hasher *hasher;
    int64_t bytes;
} writer;

// In pieces that stay in the cache between hash and copy.
static tt_status put(void *user, const void *bytes, int64_t n)
{
    writer *w = user;
    const int64_t most = 512 << 10;
    const char *p = bytes;
    for (int64_t done = 0; done < n; done += most) {
        const int64_t k = n - done < most ? n - done : most;
        tt_hasher_add(w->hasher, p + done, k);
        TT_TRY(tt_file_write(&w->file, p + done, k));
    }
    w->bytes += n;
    return TT_OK;
}

// Exactly one of the two is given.
static tt_status put_content(writer *w, const tt_safetensors_content *tensors,
                             const tt_checkpoint_text *text)
{
    const tt_safetensors_sink sink = {put, w};
    if (text != NULL)
        return put(w, text->text, text->n);
    return tt_safetensors_stream(w->file.path, tensors, &sink);
}

static tt_status write_file(const char *folder,
                            const tt_safetensors_content *tensors,
                            const tt_checkpoint_text *text,
                            tt__checkpoint_file *entry,
                            char hash[TT_HASH_CHARS])
{
    char path[PATH_MAX];
    writer w = {.file = TT_FILE_CLOSED, .hasher = tt_hasher_create()};
    if (w.hasher == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", folder);
    tt_status status = tt__checkpoint_path(folder, entry->name, path);
    if (status == TT_OK)
        status = tt_file_create(&w.file, path);
    if (status == TT_OK)
        status = tt_file_finish(&w.file, put_content(&w, tensors, text));
    if (status == TT_OK) {
        tt_hasher_text(w.hasher, hash);
        entry->bytes = w.bytes;
        entry->hash = hash;
    }
    tt_hasher_destroy(w.hasher);
    return status;
}

static tt_status write_tensors(const char *folder, const tt_safetensor *tensors,
                               int64_t n, tt__checkpoint_file *entry,
                               char hash[TT_HASH_CHARS])
{
    // Readers of the ecosystem refuse files that do not say this.
    const tt_safetensors_note note = {"format", "pt"};
    const tt_safetensors_content content = {tensors, n, &note, 1};
    return write_file(folder, &content, NULL, entry, hash);
}

static tt_status write_state(const char *folder,
                             const tt__checkpoint_state *state)
{
    char hash[TT_HASH_CHARS];
    tt_str text = {0};
    tt__checkpoint_print(state, &text);
    tt_status status = tt_str_status(&text);
    const tt_checkpoint_text file = {"state.json", text.text, text.n};
    tt__checkpoint_file entry = {.name = file.name};
    if (status == TT_OK)
        status = write_file(folder, NULL, &file, &entry, hash);
    tt_str_fini(&text);
    return status;
}

static tt_status write_files(const char *folder, const tt_checkpoint_content *c,
                             tt__checkpoint_file *file,
                             char (*hash)[TT_HASH_CHARS])
{
    tt__checkpoint_state state = {.step = c->step, .state = c->state};
    int64_t k = 0;
    state.file = file;
    file[k].name = "model.safetensors";
    TT_TRY(write_tensors(folder, c->model, c->n_model, &file[k], hash[k]));
    k++;
    if (c->n_optim > 0) {
        file[k].name = "optim.safetensors";
        TT_TRY(write_tensors(folder, c->optim, c->n_optim, &file[k], hash[k]));
        k++;
    }
    for (int i = 0; i < c->n_text; i++, k++) {
        file[k].name = c->text[i].name;
        TT_TRY(write_file(folder, NULL, &c->text[i], &file[k], hash[k]));
    }
    state.n_files = k;
    TT_TRY(write_state(folder, &state));
    return tt_file_sync_folder(folder);
}

tt_status tt__checkpoint_write(const char *folder,
                               const tt_checkpoint_content *content)
{
    tt_status status = TT_ERR_NOMEM;
    const int64_t n = content->n_text + 2;
    tt_arena *arena = tt_arena_create();
    tt__checkpoint_file *file = NULL;
    char(*hash)[TT_HASH_CHARS] = NULL;
    if (arena != NULL) {
        file = tt_arena_alloc(arena, n * (int64_t)sizeof(*file));
        hash = tt_arena_alloc(arena, n * (int64_t)sizeof(*hash));
    }
    if (file != NULL && hash != NULL)
        status = write_files(folder, content, file, hash);
    else
        (void)tt_fail(status, "%s: out of memory", folder);
    tt_arena_destroy(arena);
    return status;
}
