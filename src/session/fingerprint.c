// fingerprint - hashes the files of the data. fingerprint_text.c prints and
// compares.
//
// A run that resumes assumes that sample number n is the same as before. If a file
// was changed, added or removed, everything after it shifts, and nobody would
// notice: the loss looks normal. So a checkpoint keeps a fingerprint of the data,
// and a start compares it.
//
// Hashing a terabyte at each start would take too long. So there are two levels:
//
//   up to TT_FINGERPRINT_BYTES    all bytes of all files
//   more                          all names; sizes, times and some 64 KiB blocks of
//                                 files that are spread evenly over all
//
// Files are hashed in groups of neighbours (by name), so that a difference can be
// named: "one of the 12 files from a to b". For text the tokens are hashed too,
// since a changed tokenizer changes them and no file of the data.

#include "session/fingerprint.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "store/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert((int)TT_FINGERPRINT_CHARS == (int)TT_HASH_CHARS, "one hash");

enum {
    BLOCK = 64 << 10,
    N_BLOCKS = 1024, // in all, where not everything is hashed
    PIECE = 1 << 20,
    IDS = 1 << 16,
    WHOLE_IDS = 1 << 28,
};

typedef struct file {
    const char *path;
    const char *name; // what is hashed: the path as the run knows it
    int64_t bytes, time;
    bool is_known; // bytes and time are
    bool is_read;
} file;

typedef struct taking {
    tt_arena *arena;
    tt_fingerprint *to;
    tt_file_list list;
    file *v;
    int64_t n;
    int64_t blocks; // per file that is read; 0: all of it
    uint8_t *buffer;
} taking;

// ---- which files -------------------------------------------------------------

// Lists the files of both splits, each once: both may be parts of the same files.
static tt_status list_files(taking *t, const tt_data *data)
{
    TT_TRY(tt_source_files(data->train, &t->list));
    TT_TRY(tt_source_files(data->val, &t->list));
    tt_file_list_sort(&t->list, 0);
    t->v = tt_alloc((t->list.n + 1) * (int64_t)sizeof *t->v);
    if (t->v == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a list of the data");
    for (int64_t i = 0; i < t->list.n; i++) {
        const char *path = tt_file_list_at(&t->list, i);
        if (t->n == 0 || strcmp(t->v[t->n - 1].path, path) != 0)
            t->v[t->n++] = (file){.path = path, .name = path};
    }
    return TT_OK;
}

// Whether file `i` is one of at most `most`, spread evenly over all `n`.
static bool is_chosen(int64_t i, int64_t n, int64_t most)
{
    return n <= most || i * most / n != (i + 1) * most / n;
}

static tt_status look_at(file *f)
{
    struct stat info;
    if (stat(f->path, &info) != 0)
        return tt_fail(TT_ERR_IO, "%s: %s", f->path, strerror(errno));
    f->bytes = info.st_size;
    f->time = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    f->is_known = true;
    return TT_OK;
}

// How many blocks of a file are hashed; 0: all of it.
static int64_t blocks_of(const tt_fingerprint *f)
{
    if (f->is_whole)
        return 0;
    return f->files > 0 && f->files < N_BLOCKS / 2 ? N_BLOCKS / f->files : 2;
}

// Decides which files are looked at and which are read. With very many files even
// stat is limited to some of them: it can take minutes on a file server.
static tt_status choose(taking *t)
{
    const bool is_many = t->n > TT_FINGERPRINT_FILES;
    for (int64_t i = 0; i < t->n; i++) {
        if (is_many && !is_chosen(i, t->n, N_BLOCKS))
            continue;
        TT_TRY(look_at(&t->v[i]));
        t->to->bytes += t->v[i].bytes;
    }
    t->to->files = t->n;
    t->to->is_whole = !is_many && t->to->bytes <= TT_FINGERPRINT_BYTES;
    t->blocks = blocks_of(t->to);
    for (int64_t i = 0; i < t->n; i++)
        t->v[i].is_read = t->v[i].is_known &&
                          (t->to->is_whole || is_chosen(i, t->n, N_BLOCKS));
    return TT_OK;
}

// ---- hashing -----------------------------------------------------------------

static void add_number(tt_hasher *h, int64_t value)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (uint8_t)((uint64_t)value >> (8 * i));
    tt_hasher_add(h, bytes, sizeof bytes);
}

static tt_status hash_range(const taking *t, const file *f, int fd,
                            int64_t from, int64_t to, tt_hasher *h)
{
    while (from < to) {
        const int64_t want = to - from < PIECE ? to - from : PIECE;
        const ssize_t k = pread(fd, t->buffer, (size_t)want, from);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return tt_fail(TT_ERR_IO, "%s: byte %lld cannot be read: %s",
                           f->path, (long long)from,
                           k < 0 ? strerror(errno) : "the file became shorter");
        tt_hasher_add(h, t->buffer, k);
        from += k;
    }
    return TT_OK;
}

// Hashes all of a file, or evenly spaced blocks that include its first and last
// bytes.
static tt_status hash_contents(const taking *t, const file *f, int fd,
                               tt_hasher *h)
{
    const int64_t n = t->blocks;
    if (n == 0 || f->bytes <= n * BLOCK)
        return hash_range(t, f, fd, 0, f->bytes, h);
    const int64_t stride = (f->bytes - BLOCK) / (n - 1);
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = i < n - 1 ? i * stride : f->bytes - BLOCK;
        TT_TRY(hash_range(t, f, fd, at, at + BLOCK, h));
    }
    return TT_OK;
}

static tt_status hash_file(const taking *t, const file *f, tt_hasher *h)
{
    tt_hasher_add(h, f->name, (int64_t)strlen(f->name) + 1);
    if (f->is_known)
        add_number(h, f->bytes);
    if (!f->is_read)
        return TT_OK;
    const int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return tt_fail(TT_ERR_IO, "%s: %s", f->path, strerror(errno));
    const tt_status status = hash_contents(t, f, fd, h);
    (void)close(fd);
    return status;
}

// Copies a name, with bytes that are no UTF-8 replaced, since JSON cannot hold
// them.
static const char *copy_name(tt_arena *arena, const char *path)
{
    const int64_t n = (int64_t)strlen(path);
    char *copy = tt_arena_strdup(arena, path);
    for (int64_t i = 0; copy != NULL && i < n;) {
        const int k = tt_utf8_read(copy + i, n - i, NULL);
        if (k == 0)
            copy[i] = '?';
        i += k > 0 ? k : 1;
    }
    return copy;
}

static tt_status hash_group(const taking *t, int64_t from, int64_t to,
                            tt_fingerprint_group *g)
{
    tt_hasher *h = tt_hasher_create();
    tt_status status =
        h != NULL ? TT_OK : tt_fail(TT_ERR_NOMEM, "no memory to hash the data");
    *g = (tt_fingerprint_group){.files = to - from};
    g->first = copy_name(t->arena, t->v[from].name);
    g->last = copy_name(t->arena, t->v[to - 1].name);
    if (g->first == NULL || g->last == NULL)
        status = TT_ERR_NOMEM;
    for (int64_t i = from; i < to && status == TT_OK; i++) {
        const file *f = &t->v[i];
        g->bytes += f->bytes;
        if (!t->to->is_whole && f->time > g->time)
            g->time = f->time;
        status = hash_file(t, f, h);
    }
    if (status == TT_OK)
        tt_hasher_text(h, g->hash);
    tt_hasher_destroy(h);
    return status;
}

static tt_status hash_names(taking *t)
{
    tt_hasher *h = tt_hasher_create();
    if (h == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to hash the data");
    for (int64_t i = 0; i < t->n; i++)
        tt_hasher_add(h, t->v[i].path, (int64_t)strlen(t->v[i].path) + 1);
    tt_hasher_text(h, t->to->names);
    tt_hasher_destroy(h);
    return TT_OK;
}

static tt_status hash_files(taking *t)
{
    tt_fingerprint *to = t->to;
    to->n = t->n < TT_FINGERPRINT_GROUPS ? t->n : TT_FINGERPRINT_GROUPS;
    to->v = tt_arena_alloc(t->arena, (to->n + 1) * (int64_t)sizeof *to->v);
    t->buffer = tt_alloc(PIECE);
    if (to->v == NULL || t->buffer == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to hash the data");
    for (int64_t i = 0; i < to->n; i++)
        TT_TRY(
            hash_group(t, i * t->n / to->n, (i + 1) * t->n / to->n, &to->v[i]));
    return hash_names(t);
}

// ---- tokens of text ----------------------------------------------------------

static tt_status hash_ids(const tt_source *source, int32_t *ids, tt_hasher *h)
{
    const bool is_whole = source->n <= WHOLE_IDS;
    const int64_t n_pieces = (source->n + IDS - 1) / IDS;
    add_number(h, source->n);
    for (int64_t i = 0; i < n_pieces; i++) {
        if (!is_whole && !is_chosen(i, n_pieces, N_BLOCKS))
            continue;
        const int64_t left = source->n - i * IDS;
        const int64_t n = left < IDS ? left : IDS;
        TT_TRY(tt_source_read_tokens(source, i * IDS, n, ids));
        tt_hasher_add(h, ids, n * (int64_t)sizeof *ids);
    }
    return TT_OK;
}

// Hashes the tokens of text. The same text becomes other tokens with another
// tokenizer.
static tt_status hash_tokens(const tt_data *data, tt_fingerprint *to)
{
    const tt_source *const both[] = {data->train, data->val};
    const tt_source *any = data->train != NULL ? data->train : data->val;
    tt_status status = TT_OK;
    if (!any->is_text)
        return TT_OK;
    tt_hasher *h = tt_hasher_create();
    int32_t *ids = tt_alloc(IDS * (int64_t)sizeof *ids);
    if (h == NULL || ids == NULL)
        status = tt_fail(TT_ERR_NOMEM, "no memory to hash the data");
    for (int i = 0; i < 2 && status == TT_OK; i++)
        if (both[i] != NULL)
            status = hash_ids(both[i], ids, h);
    if (status == TT_OK)
        tt_hasher_text(h, to->tokens);
    tt_free(ids);
    tt_hasher_destroy(h);
    return status;
}

static tt_status take(taking *t, const tt_data *data)
{
    TT_TRY(list_files(t, data));
    TT_TRY(choose(t));
    TT_TRY(hash_files(t));
    return hash_tokens(data, t->to);
}

tt_status tt_fingerprint_take(const tt_data *data, tt_arena *arena,
                              const tt_fingerprint **fingerprint_out)
{
    taking t = {.arena = arena,
                .to = tt_arena_alloc(arena, sizeof(tt_fingerprint))};
    if (t.to == NULL)
        return TT_ERR_NOMEM;
    const tt_status status = take(&t, data);
    tt_free(t.buffer);
    tt_free(t.v);
    tt_file_list_fini(&t.list);
    if (status == TT_OK)
        *fingerprint_out = t.to;
    return status;
}

// ---- some of the files -------------------------------------------------------

static bool is_within(const tt_fingerprint_group *g, const char *name)
{
    return strcmp(g->first, name) <= 0 && strcmp(name, g->last) <= 0;
}

static bool is_known(const tt_fingerprint *f, const char *name)
{
    for (int64_t i = 0; i < f->n; i++)
        if (is_within(&f->v[i], name))
            return true;
    return false;
}

// A run that was started in `start` calls START/a.txt a.txt.
static const char *name_in(const tt_fingerprint *then, const char *path,
                           const char *start)
{
    const size_t n = strlen(start);
    return n > 0 && !is_known(then, path) && strncmp(path, start, n) == 0 &&
                   path[n] == '/'
               ? path + n + 1
               : path;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const file *)a)->name, ((const file *)b)->name);
}

// Whether the files [from, to) are all those of a group and what they hold is the
// same. Of a group that has more files nothing can be told.
static tt_status compare_group(taking *t, const tt_fingerprint_group *then,
                               int64_t from, int64_t to, bool *is_same)
{
    tt_fingerprint_group now = {0};
    *is_same = true;
    if (to - from < then->files)
        return TT_OK;
    for (int64_t i = from; i < to; i++) {
        TT_TRY(look_at(&t->v[i]));
        t->v[i].is_read = true;
        now.bytes += t->v[i].bytes;
    }
    *is_same = to - from == then->files && now.bytes == then->bytes;
    // Which files were read then depends on how many there were.
    if (!*is_same || (!t->to->is_whole && t->to->files > N_BLOCKS))
        return TT_OK;
    TT_TRY(hash_group(t, from, to, &now));
    *is_same = strcmp(now.hash, then->hash) == 0;
    return TT_OK;
}

static tt_status compare_part(taking *t, const tt_fingerprint *then,
                              const char **changed_out)
{
    for (int64_t g = 0, from = 0; g < then->n; g++) {
        while (from < t->n && strcmp(t->v[from].name, then->v[g].first) < 0)
            from++;
        int64_t to = from;
        while (to < t->n && is_within(&then->v[g], t->v[to].name))
            to++;
        bool is_same = true;
        TT_TRY(compare_group(t, &then->v[g], from, to, &is_same));
        if (!is_same) {
            *changed_out = t->v[from].path;
            return TT_OK;
        }
        from = to;
    }
    return TT_OK;
}

static tt_status take_part(taking *t, const tt_fingerprint *then,
                           const tt_data *data, const char *start,
                           const char **changed_out)
{
    t->blocks = blocks_of(then);
    TT_TRY(list_files(t, data));
    t->buffer = tt_alloc(PIECE);
    if (t->buffer == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to hash the data");
    for (int64_t i = 0; i < t->n; i++) {
        t->v[i].name = name_in(then, t->v[i].path, start);
        if (!is_known(then, t->v[i].name))
            *changed_out = t->v[i].path;
    }
    if (*changed_out == NULL) {
        qsort(t->v, (size_t)t->n, sizeof *t->v, compare_names);
        TT_TRY(compare_part(t, then, changed_out));
    }
    return TT_OK;
}

tt_status tt_fingerprint_find_changed(const tt_fingerprint *then,
                                      const tt_data *data, const char *start,
                                      tt_arena *arena, const char **path_out)
{
    *path_out = NULL;
    if (then == NULL || then->n == 0 || then->files > TT_FINGERPRINT_FILES)
        return TT_OK;
    tt_fingerprint like = {.files = then->files, .is_whole = then->is_whole};
    taking t = {.arena = arena, .to = &like};
    const char *changed = NULL;
    tt_status status = take_part(&t, then, data, start, &changed);
    if (status == TT_OK && changed != NULL) {
        *path_out = tt_arena_strdup(arena, changed);
        status = *path_out != NULL ? TT_OK : TT_ERR_NOMEM;
    }
    tt_free(t.buffer);
    tt_free(t.v);
    tt_file_list_fini(&t.list);
    return status;
}
