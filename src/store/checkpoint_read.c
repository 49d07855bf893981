// checkpoint_read - opens a checkpoint, and believes it only if every byte has its
// hash.
//
// Two kinds of failure are kept apart. TT_ERR_ARG: the content is wrong, so the
// checkpoint is damaged, and an older one is used. TT_ERR_IO: it cannot be read,
// which says nothing about its content. The disk may come back, and going on from
// an older checkpoint would throw away good steps; so this ends the start.
//
// A folder may be read while a training run works in it (tutti generate, tutti
// eval). Then a checkpoint can be removed or replaced between two reads and look
// damaged. So its identity (device, inode, time) is compared before and after a
// failure; if it has changed, the search begins again. Once open, a checkpoint
// stays readable: small files are copied, files of tensors are mapped.
//
// With leaves_data the tensors' data are not hashed here. Reading 18 GB on rank 0
// before every rank reads its part would double the time. The table of tensors has
// a hash of its own, and each tensor a sum that whoever reads it must check
// (store/checksum.h).

#include "base/alloc.h"
#include "base/file.h"
#include "store/checkpoint_folder.h"
#include "store/safetensors_header.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    STATE_MAX = 64 << 20,
    TEXT_MAX = INT_MAX,
    PIECE = 1 << 20,
    MAX_TRIES = 100, // while a training run replaces what is looked at
};

typedef struct opened {
    tt_checkpoint public; // first, since callers hold a pointer to it
    tt__checkpoint_state state;
    const char **text; // of each file; NULL: one of tensors
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
        const int64_t n = tt_file_read_some(fd, piece, PIECE, -1);
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
    if (fstat(fd, &info) != 0)
        return tt_fail(TT_ERR_IO, "%s cannot be examined: %s", file->name,
                       strerror(errno));
    if (!S_ISREG(info.st_mode))
        return tt_fail(TT_ERR_ARG, "%s is not a regular file", file->name);
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
    const int fd = tt_file_open_read(path);
    if (fd < 0 && tt_file_is_absent(errno))
        return tt_fail(TT_ERR_ARG, "%s is missing", file->name);
    if (fd < 0)
        return tt_fail(TT_ERR_IO, "%s cannot be opened: %s", file->name,
                       strerror(errno));
    const tt_status status = verify_fd(fd, file, leaves_data);
    close(fd);
    return status;
}

static bool is_tensors(const char *name)
{
    return strcmp(name, "model.safetensors") == 0 ||
           strcmp(name, "optim.safetensors") == 0;
}

static tt_status keep_text(tt_arena *arena, const tt_str *text,
                           const tt__checkpoint_file *file,
                           const char **text_out)
{
    char hash[TT_HASH_CHARS];
    if (text->n != file->bytes)
        return tt_fail(TT_ERR_ARG, "%s has %lld bytes but should have %lld",
                       file->name, (long long)text->n, (long long)file->bytes);
    tt_hash_text(tt_str_text(text), text->n, hash);
    if (strcmp(hash, file->hash) != 0)
        return tt_fail(TT_ERR_ARG, "%s is damaged: its hash is wrong",
                       file->name);
    char *copy = tt_arena_alloc(arena, text->n + 1);
    if (copy == NULL)
        return TT_ERR_NOMEM;
    memcpy(copy, tt_str_text(text), (size_t)text->n);
    *text_out = copy;
    return TT_OK;
}

// Reads a small file and keeps it: a training run may remove the folder at any
// time.
static tt_status read_text(opened *c, const tt__checkpoint_file *file,
                           const char **text_out)
{
    char path[PATH_MAX];
    tt_str text = {0};
    bool found = false;
    TT_TRY(tt__checkpoint_path(c->public.folder, file->name, path));
    tt_status status = tt_file_read_if(path, TEXT_MAX, &text, &found);
    if (status == TT_OK && !found)
        status = tt_fail(TT_ERR_ARG, "%s is missing", file->name);
    if (status == TT_OK)
        status = keep_text(c->public.arena, &text, file, text_out);
    tt_str_fini(&text);
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
    bool found = false;
    TT_TRY(tt__checkpoint_path(c->public.folder, "state.json", path));
    tt_status status = tt_file_read_if(path, STATE_MAX, &text, &found);
    if (status == TT_OK && !found)
        status = tt_fail(TT_ERR_ARG, "state.json is missing");
    if (status == TT_OK)
        status = tt__checkpoint_parse(tt_str_text(&text), text.n,
                                      c->public.arena, &c->state);
    tt_str_fini(&text);
    return status;
}

// For files with sums: checks the hash of the header, and gives each tensor its
// sum. The data are checked by whoever reads them.
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
    TT_TRY(tt_safetensors_hold(path, out));
    return file->header != NULL ? check_table(*out, file) : TT_OK;
}

static tt_status read_all(opened *c, bool leaves_data)
{
    TT_TRY(read_state(c));
    c->text = tt_arena_alloc(c->public.arena,
                             (c->state.n_files + 1) * (int64_t)sizeof *c->text);
    if (c->text == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < c->state.n_files; i++) {
        const tt__checkpoint_file *file = &c->state.file[i];
        TT_TRY(is_tensors(file->name)
                   ? verify_file(c->public.folder, file, leaves_data)
                   : read_text(c, file, &c->text[i]));
    }
    c->public.step = c->state.step;
    c->public.is_passing = c->state.is_passing;
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

// Opens the checkpoint of a step. A folder that was renamed by hand is refused: its
// name and its content must say the same step.
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

// What tells whether a path still names the same folder later.
typedef struct identity {
    bool is_there;
    dev_t device;
    ino_t inode;
    struct timespec changed;
} identity;

static identity identify(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return (identity){0};
    return (identity){true, info.st_dev, info.st_ino, info.st_mtim};
}

static bool is_same(const identity *a, const identity *b)
{
    return a->is_there && b->is_there && a->device == b->device &&
           a->inode == b->inode && a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

typedef struct looking {
    const char *folder;
    bool leaves_data;
    tt_str *notes;  // or NULL
    tt__steps *bad; // or NULL
    bool is_gone;   // one that was tried was removed or replaced meanwhile
} looking;

// Tries one. A damaged one becomes a note; one that cannot be read is a failure.
static tt_status try_step(looking *l, int64_t step, tt_checkpoint **out)
{
    char path[PATH_MAX];
    TT_TRY(tt__checkpoint_step_path(l->folder, step, path));
    const identity before = identify(path);
    const tt_status status = open_step(l->folder, step, l->leaves_data, out);
    const identity after = identify(path);
    if (status == TT_OK)
        return TT_OK;
    l->is_gone = !is_same(&before, &after);
    if (l->is_gone)
        return TT_OK;
    if (status != TT_ERR_ARG)
        return tt_fail_context(status, "%s", path);
    if (l->notes != NULL)
        tt_str_addf(l->notes, "%s is not used: %s\n", path, tt_error_message());
    return l->bad != NULL ? tt__saved_steps_add(l->bad, step) : TT_OK;
}

static tt_status try_steps(looking *l, const tt__steps *steps, int64_t limit,
                           tt_checkpoint **out)
{
    l->is_gone = false;
    for (int64_t i = steps->n; i-- > 0 && *out == NULL && !l->is_gone;) {
        const int64_t step = steps->v[i];
        if (step <= limit &&
            (l->bad == NULL || !tt__saved_steps_has(l->bad, step)))
            TT_TRY(try_step(l, step, out));
    }
    return TT_OK;
}

tt_status tt__checkpoint_newest(const char *folder,
                                const tt_checkpoint_search *search,
                                tt_str *notes, tt__steps *bad,
                                tt_checkpoint **out)
{
    looking l = {.folder = folder,
                 .leaves_data = search->leaves_data,
                 .notes = notes,
                 .bad = bad};
    const int64_t n_notes = notes != NULL ? notes->n : 0;
    tt_checkpoint *found = NULL;
    tt_status status = TT_OK;
    for (int i = 0; i < MAX_TRIES; i++) {
        tt__steps steps = {0};
        if (notes != NULL && bad == NULL && notes->n > n_notes) {
            notes->n = n_notes; // the same ones are tried again
            notes->text[n_notes] = '\0';
        }
        status = tt__checkpoint_steps(folder, &steps);
        if (status == TT_OK)
            status = try_steps(&l, &steps, search->limit, &found);
        tt_free(steps.v);
        if (status != TT_OK || found != NULL || !l.is_gone)
            break;
    }
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

// Opens the best one. If it is replaced meanwhile, `best` names another one; then
// that is tried.
static tt_status find_best(const char *path, const tt_checkpoint_search *s,
                           tt_str *notes, tt_checkpoint **out)
{
    looking l = {.folder = path, .leaves_data = s->leaves_data, .notes = notes};
    int64_t tried = -1;
    for (int i = 0; i < MAX_TRIES; i++) {
        int64_t best = -1;
        TT_TRY(tt__checkpoint_named(path, "best", &best));
        if (best < 0 || best > s->limit || (best == tried && !l.is_gone))
            return TT_OK;
        TT_TRY(try_step(&l, best, out));
        if (*out != NULL)
            return TT_OK;
        tried = best;
    }
    return TT_OK;
}

// The best or the newest of a folder of checkpoints; NULL: none can be used.
static tt_status find_one(const char *folder, const tt_checkpoint_search *s,
                          tt_str *notes, tt_checkpoint **out)
{
    char path[PATH_MAX];
    TT_TRY(find_folder(folder, path));
    if (s->wants_best)
        TT_TRY(find_best(path, s, notes, out));
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
    if (found == NULL && !s.is_optional)
        return tt_fail(TT_ERR_IO, "%s: has no checkpoint that can be used",
                       folder);
    *out = found;
    return TT_OK;
}

tt_status tt_checkpoint_text_read(const tt_checkpoint *checkpoint,
                                  const char *name, const char **text_out,
                                  int64_t *n_out)
{
    const opened *c = (const opened *)checkpoint;
    const tt__checkpoint_file *file = find_file(c, name);
    if (file == NULL || c->text[file - c->state.file] == NULL)
        return tt_fail(TT_ERR_ARG, "%s: has no %s", checkpoint->folder, name);
    *text_out = c->text[file - c->state.file];
    *n_out = file->bytes;
    return TT_OK;
}
