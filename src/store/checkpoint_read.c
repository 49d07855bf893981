// checkpoint_read - a checkpoint is believed when every byte has its hash.

#include "base/alloc.h"
#include "base/file.h"
#include "store/checkpoint_folder.h"
#include "store/safetensors_header.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATE_MAX = 64 << 20, PIECE = 1 << 20 };

typedef struct opened {
    tt_checkpoint public; // first: this is what callers hold
    tt__checkpoint_state state;
} opened;

static tt_status hash_file(int fd, const char *name, char out[TT_HASH_CHARS])
{
    tt_status status = TT_OK;
    tt_hasher *hasher = tt_hasher_create();
    char *piece = tt_alloc_aligned(PIECE, 64);
    if (hasher == NULL || piece == NULL) {
        status = tt_fail(TT_ERR_NOMEM, "%s: out of memory", name);
        goto out;
    }
    for (;;) {
        const ssize_t n = read(fd, piece, PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            status = tt_fail(TT_ERR_IO, "%s cannot be read: %s", name,
                             strerror(errno));
        if (n <= 0)
            break;
        tt_hasher_add(hasher, piece, n);
    }
    tt_hasher_text(hasher, out);
out:
    tt_free_aligned(piece);
    tt_hasher_destroy(hasher);
    return status;
}

static tt_status verify_fd(int fd, const tt__checkpoint_file *file,
                           bool leaves_data)
{
    char hash[TT_HASH_CHARS];
    struct stat info;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        return tt_fail(TT_ERR_IO, "%s is not a regular file", file->name);
    if (info.st_size != file->bytes)
        return tt_fail(TT_ERR_ARG, "%s has %lld bytes but should have %lld",
                       file->name, (long long)info.st_size,
                       (long long)file->bytes);
    if (leaves_data && file->header != NULL)
        return TT_OK;
    TT_TRY(hash_file(fd, file->name, hash));
    if (strcmp(hash, file->hash) != 0)
        return tt_fail(TT_ERR_ARG, "%s is damaged: its hash is wrong",
                       file->name);
    return TT_OK;
}

static tt_status verify_file(const char *folder,
                             const tt__checkpoint_file *file, bool leaves_data)
{
    char path[PATH_MAX];
    TT_TRY(tt__checkpoint_path(folder, file->name, path));
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return tt_fail(TT_ERR_IO, "%s cannot be opened: %s", file->name,
                       strerror(errno));
    const tt_status status = verify_fd(fd, file, leaves_data);
    close(fd);
    return status;
}

static const tt__checkpoint_file *find_file(const opened *c, const char *name)
{
    for (int64_t i = 0; i < c->state.n_files; i++)
        if (strcmp(c->state.file[i].name, name) == 0)
            return &c->state.file[i];
    return NULL;
}

static tt_status read_state(opened *c)
{
    char path[PATH_MAX];
    tt_str text = {0};
    TT_TRY(tt__checkpoint_path(c->public.folder, "state.json", path));
    if (!tt_file_exists(path))
        return tt_fail(TT_ERR_IO, "state.json is missing");
    tt_status status = tt_file_read(path, STATE_MAX, &text);
    if (status == TT_OK)
        status = tt__checkpoint_parse(tt_str_text(&text), text.n,
                                      c->public.arena, &c->state);
    tt_str_fini(&text);
    return status;
}

// Whose data have sums is believed for now when its table has its hash.
static tt_status check_table(tt_safetensors *tensors,
                             const tt__checkpoint_file *file)
{
    char hash[TT_HASH_CHARS];
    tt_hash_text(tt_safetensors_header(tensors),
                 tt_safetensors_header_bytes(tensors), hash);
    if (strcmp(hash, file->header) != 0)
        return tt_fail(TT_ERR_ARG, "%s is damaged: its hash is wrong",
                       file->name);
    if (tt_safetensors_count(tensors) != file->n_sums)
        return tt_fail(TT_ERR_ARG, "state.json: \"sums\" makes no sense");
    for (int64_t i = 0; i < file->n_sums; i++)
        tt_safetensors_set_sum(tensors, i, file->sum[i]);
    return TT_OK;
}

static tt_status open_tensors(const opened *c, const char *name,
                              tt_safetensors **out)
{
    char path[PATH_MAX];
    const tt__checkpoint_file *file = find_file(c, name);
    if (file == NULL)
        return TT_OK;
    TT_TRY(tt__checkpoint_path(c->public.folder, name, path));
    TT_TRY(tt_safetensors_open(path, out));
    return file->header != NULL ? check_table(*out, file) : TT_OK;
}

static tt_status read_all(opened *c, bool leaves_data)
{
    TT_TRY(read_state(c));
    for (int64_t i = 0; i < c->state.n_files; i++)
        TT_TRY(verify_file(c->public.folder, &c->state.file[i], leaves_data));
    c->public.step = c->state.step;
    c->public.state = c->state.state;
    TT_TRY(open_tensors(c, "model.safetensors", &c->public.model));
    if (c->public.model == NULL)
        return tt_fail(TT_ERR_ARG, "it has no model.safetensors");
    return open_tensors(c, "optim.safetensors", &c->public.optim);
}

// The checkpoint in `folder` itself.
static tt_status open_checkpoint(const char *folder, bool leaves_data,
                                 tt_checkpoint **out)
{
    tt_status status = TT_ERR_NOMEM;
    tt_arena *arena = tt_arena_create();
    opened *c = arena ? tt_arena_alloc(arena, (int64_t)sizeof(*c)) : NULL;
    if (c == NULL) {
        tt_arena_destroy(arena);
        return tt_fail(status, "%s: out of memory", folder);
    }
    c->public.arena = arena;
    c->public.folder = tt_arena_strdup(arena, folder);
    if (c->public.folder != NULL)
        status = read_all(c, leaves_data);
    if (status == TT_OK)
        *out = &c->public;
    else
        tt_checkpoint_close(&c->public);
    return status;
}

void tt_checkpoint_close(tt_checkpoint *checkpoint)
{
    if (checkpoint == NULL)
        return;
    tt_safetensors_close(checkpoint->model);
    tt_safetensors_close(checkpoint->optim);
    tt_arena_destroy(checkpoint->arena);
}

// One of a folder of checkpoints: its name and its content say the same step.
static tt_status open_step(const char *folder, int64_t step, bool leaves_data,
                           tt_checkpoint **out)
{
    char path[PATH_MAX];
    tt_checkpoint *found = NULL;
    TT_TRY(tt__checkpoint_step_path(folder, step, path));
    TT_TRY(open_checkpoint(path, leaves_data, &found));
    if (found->step != step) {
        const int64_t inside = found->step;
        tt_checkpoint_close(found);
        return tt_fail(TT_ERR_ARG, "it holds step %lld", (long long)inside);
    }
    *out = found;
    return TT_OK;
}

// Tries one; a bad one is a note, and only lack of memory is a failure.
static tt_status try_step(const char *folder, int64_t step, bool leaves_data,
                          tt_str *notes, tt__steps *bad, tt_checkpoint **out)
{
    const tt_status status = open_step(folder, step, leaves_data, out);
    if (status == TT_OK || status == TT_ERR_NOMEM)
        return status;
    if (notes != NULL)
        tt_str_addf(notes, "%s/step-%08lld is not used: %s\n", folder,
                    (long long)step, tt_error_message());
    return bad != NULL ? tt__steps_add(bad, step) : TT_OK;
}

tt_status tt__checkpoint_newest(const char *folder,
                                const tt_checkpoint_search *search,
                                tt_str *notes, tt__steps *bad,
                                tt_checkpoint **out)
{
    tt__steps steps = {0};
    tt_checkpoint *found = NULL;
    tt_status status = tt__checkpoint_steps(folder, &steps);
    for (int64_t i = steps.n; i-- > 0 && status == TT_OK && found == NULL;)
        if (steps.v[i] <= search->limit)
            status = try_step(folder, steps.v[i], search->leaves_data, notes,
                              bad, &found);
    tt_free(steps.v);
    if (status == TT_OK)
        *out = found;
    return status;
}

// A run folder has its checkpoints one level down.
static tt_status find_folder(const char *folder, char path[PATH_MAX])
{
    TT_TRY(tt__checkpoint_path(folder, "checkpoints", path));
    if (tt_file_is_folder(path))
        return TT_OK;
    return tt__checkpoint_path(folder, ".", path);
}

// The best or the newest of a folder of checkpoints; NULL: none can be used.
static tt_status find_one(const char *folder, const tt_checkpoint_search *s,
                          tt_str *notes, tt_checkpoint **out)
{
    char path[PATH_MAX];
    TT_TRY(find_folder(folder, path));
    const int64_t best =
        s->wants_best ? tt__checkpoint_named(path, "best") : -1;
    if (best >= 0 && best <= s->limit)
        TT_TRY(try_step(path, best, s->leaves_data, notes, NULL, out));
    return *out != NULL ? TT_OK
                        : tt__checkpoint_newest(path, s, notes, NULL, out);
}

tt_status tt_checkpoint_read(const char *folder,
                             const tt_checkpoint_search *search, tt_str *notes,
                             tt_checkpoint **out)
{
    const tt_checkpoint_search s =
        search != NULL ? *search : (tt_checkpoint_search){.limit = INT64_MAX};
    char path[PATH_MAX];
    tt_checkpoint *found = NULL;
    if (!tt_file_is_folder(folder))
        return tt_fail(TT_ERR_IO, "%s: there is no such folder", folder);
    TT_TRY(tt__checkpoint_path(folder, "state.json", path));
    if (tt_file_exists(path)) {
        const tt_status status = open_checkpoint(folder, s.leaves_data, &found);
        TT_TRY(status == TT_OK ? TT_OK : tt_fail_context(status, "%s", folder));
    } else {
        TT_TRY(find_one(folder, &s, notes, &found));
    }
    if (found != NULL && found->step > s.limit) {
        tt_checkpoint_close(found);
        found = NULL;
    }
    if (found == NULL)
        return tt_fail(TT_ERR_IO, "%s: has no checkpoint that can be used",
                       folder);
    *out = found;
    return TT_OK;
}

tt_status tt_checkpoint_text_read(tt_checkpoint *checkpoint, const char *name,
                                  const char **text_out, int64_t *n_out)
{
    char path[PATH_MAX], hash[TT_HASH_CHARS];
    const opened *c = (const opened *)checkpoint;
    const tt__checkpoint_file *file = find_file(c, name);
    tt_str text = {0};
    if (file == NULL)
        return tt_fail(TT_ERR_ARG, "%s: has no %s", checkpoint->folder, name);
    TT_TRY(tt__checkpoint_path(checkpoint->folder, name, path));
    tt_status status = tt_file_read(path, file->bytes, &text);
    tt_hash_text(tt_str_text(&text), text.n, hash);
    if (status == TT_OK && strcmp(hash, file->hash) != 0)
        status = tt_fail(TT_ERR_IO, "%s: has changed while it was read", path);
    char *copy = NULL;
    if (status == TT_OK) {
        copy = tt_arena_alloc(checkpoint->arena, text.n + 1);
        status = copy != NULL ? TT_OK : TT_ERR_NOMEM;
    }
    if (copy != NULL) {
        memcpy(copy, tt_str_text(&text), (size_t)text.n);
        *text_out = copy;
        *n_out = text.n;
    }
    tt_str_fini(&text);
    return status;
}
