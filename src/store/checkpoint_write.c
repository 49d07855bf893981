// checkpoint_write - the files of one checkpoint, hashed on their way to the disk.
//
// Every byte is touched once: a piece of 512 KiB is hashed, summed and written
// while it is in the cache. Reading the file again to hash it would double the
// traffic. state.json comes last, because it has the hashes of all others.

#include "base/file.h"
#include "store/checkpoint_folder.h"
#include "store/checksum.h"
#include "store/safetensors_header.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sums { // of one file of tensors
    char header[TT_HASH_CHARS];
    uint64_t *v;
    int64_t n;
} sums;

typedef struct made { // what is to be known of a file that was written
    char hash[TT_HASH_CHARS];
    sums sums;
} made;

typedef struct writer {
    tt_file file;
    tt_hasher *hasher;
    int64_t bytes;
    sums *sums;     // of tensors; NULL: a text
    int64_t size;   // of the current tensor's elements
    int64_t summed; // of them
} writer;

// Called before each tensor. At the first one, everything hashed so far is the
// header.
static void begin(void *user, const tt_safetensor *tensor)
{
    writer *w = user;
    sums *s = w->sums;
    if (s->n == 0)
        tt_hasher_text(w->hasher, s->header);
    s->v[s->n++] = 0;
    w->size = tt_checksum_size(tensor->dtype);
    w->summed = 0;
}

// Pieces never end within an element: their length is a power of two.
static void add_to_sum(writer *w, const char *bytes, int64_t n)
{
    if (w->sums == NULL || w->sums->n == 0)
        return;
    w->sums->v[w->sums->n - 1] +=
        tt_checksum(bytes, n / w->size, w->size, w->summed);
    w->summed += n / w->size;
}

// Hashes, sums and writes, piece by piece.
static tt_status put(void *user, const void *bytes, int64_t n)
{
    writer *w = user;
    const int64_t most = 512 << 10;
    const char *p = bytes;
    for (int64_t done = 0; done < n; done += most) {
        const int64_t k = n - done < most ? n - done : most;
        tt_hasher_add(w->hasher, p + done, k);
        add_to_sum(w, p + done, k);
        TT_TRY(tt_file_write(&w->file, p + done, k));
    }
    w->bytes += n;
    return TT_OK;
}

// Exactly one of the two is given.
static tt_status put_content(writer *w, const tt_safetensors_content *tensors,
                             const tt_checkpoint_text *text)
{
    const tt_safetensors_sink sink = {put, begin, w};
    if (text != NULL)
        return put(w, text->text, text->n);
    return tt_safetensors_stream(w->file.path, tensors, &sink);
}

static tt_status write_file(const char *folder,
                            const tt_safetensors_content *tensors,
                            const tt_checkpoint_text *text,
                            tt__checkpoint_file *entry, made *out)
{
    char path[PATH_MAX];
    writer w = {.file = TT_FILE_CLOSED,
                .hasher = tt_hasher_create(),
                .sums = tensors != NULL ? &out->sums : NULL};
    if (w.hasher == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", folder);
    tt_status status = tt__checkpoint_path(folder, entry->name, path);
    if (status == TT_OK)
        status = tt_file_create(&w.file, path);
    if (status == TT_OK)
        status = tt_file_finish(&w.file, put_content(&w, tensors, text));
    if (status == TT_OK) {
        tt_hasher_text(w.hasher, out->hash);
        entry->bytes = w.bytes;
        entry->hash = out->hash;
    }
    tt_hasher_destroy(w.hasher);
    return status;
}

static tt_status write_tensors(const char *folder,
                               const tt_checkpoint_content *c, bool is_model,
                               tt__checkpoint_file *entry, made *out)
{
    // transformers refuses files without this note.
    const tt_safetensors_note note = {"format", "pt"};
    const tt_safetensors_content content = {
        .tensors = is_model ? c->model : c->optim,
        .n = is_model ? c->n_model : c->n_optim,
        .notes = &note,
        .n_notes = 1,
        .fetch = c->fetch,
        .user = c->user};
    TT_TRY(write_file(folder, &content, NULL, entry, out));
    entry->header = content.n > 0 ? out->sums.header : NULL;
    entry->n_sums = out->sums.n;
    entry->sum = out->sums.v;
    return TT_OK;
}

static tt_status write_state(const char *folder,
                             const tt__checkpoint_state *state)
{
    made out = {0};
    tt_str text = {0};
    tt__checkpoint_print(state, &text);
    tt_status status = tt_str_status(&text);
    const tt_checkpoint_text file = {"state.json", text.text, text.n};
    tt__checkpoint_file entry = {.name = file.name};
    if (status == TT_OK)
        status = write_file(folder, NULL, &file, &entry, &out);
    tt_str_fini(&text);
    return status;
}

static tt_status write_files(const char *folder, const tt_checkpoint_content *c,
                             tt__checkpoint_file *file, made *out)
{
    tt__checkpoint_state state = {
        .step = c->step, .is_passing = c->is_passing, .state = c->state};
    int64_t k = 0;
    state.file = file;
    file[k].name = "model.safetensors";
    TT_TRY(write_tensors(folder, c, true, &file[k], &out[k]));
    k++;
    if (c->n_optim > 0) {
        file[k].name = "optim.safetensors";
        TT_TRY(write_tensors(folder, c, false, &file[k], &out[k]));
        k++;
    }
    for (int i = 0; i < c->n_text; i++, k++) {
        file[k].name = c->text[i].name;
        TT_TRY(write_file(folder, NULL, &c->text[i], &file[k], &out[k]));
    }
    state.n_files = k;
    TT_TRY(write_state(folder, &state));
    return tt_file_sync_folder(folder);
}

static tt_status make_room(const tt_checkpoint_content *c, tt_arena *arena,
                           tt__checkpoint_file **file_out, made **made_out)
{
    const int64_t n = c->n_text + 2;
    tt__checkpoint_file *file =
        tt_arena_alloc(arena, n * (int64_t)sizeof *file);
    made *out = tt_arena_alloc(arena, n * (int64_t)sizeof *out);
    if (file == NULL || out == NULL)
        return TT_ERR_NOMEM;
    const int64_t each = sizeof *out->sums.v;
    out[0].sums.v = tt_arena_alloc(arena, (c->n_model + 1) * each);
    out[1].sums.v = tt_arena_alloc(arena, (c->n_optim + 1) * each);
    if (out[0].sums.v == NULL || out[1].sums.v == NULL)
        return TT_ERR_NOMEM;
    *file_out = file;
    *made_out = out;
    return TT_OK;
}

tt_status tt__checkpoint_write(const char *folder,
                               const tt_checkpoint_content *content)
{
    tt_arena *arena = tt_arena_create();
    tt__checkpoint_file *file = NULL;
    made *out = NULL;
    tt_status status = TT_ERR_NOMEM;
    if (arena != NULL)
        status = make_room(content, arena, &file, &out);
    status = status == TT_OK ? write_files(folder, content, file, out)
                             : tt_fail(status, "%s: out of memory", folder);
    tt_arena_destroy(arena);
    return status;
}
