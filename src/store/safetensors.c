// safetensors - opens a file: maps it, checks it, indexes it by name.
//
// The file is mapped, so opening is fast whatever its size, and data are read when
// somebody uses them. Nothing is believed: see safetensors_header.c for the checks.
// The header is read into memory, and data are copied with read() (tt_safetensor_copy):
// an I/O error in a mapped page, or a page of a file that was cut short, is a signal
// that kills the process, and in a read it is an error message.

#include "store/safetensors.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/utf8.h"
#include "store/safetensors_header.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOK = 512 }; // bytes looked at to tell what a file is

struct tt_safetensors {
    tt_arena *arena;
    const char *path;
    int fd; // -1: closed after mapping; else held open
    void *map;
    const char
        *start; // the header, in memory: what it says cannot change any more
    int64_t bytes, header; // header: bytes before the first tensor
    dev_t device;          // of the file that is mapped
    ino_t inode;
    tt_safetensors_table table;
    int64_t *by_name; // positions in the table
};

static int64_t read_length(const unsigned char *p)
{
    uint64_t n = 0;
    for (int i = 0; i < TT_SAFETENSORS_PREFIX; i++)
        n |= (uint64_t)p[i] << (8 * i);
    return n > TT_SAFETENSORS_HEADER_MAX ? -1 : (int64_t)n;
}

static tt_status read_all(int fd, int64_t at, int64_t n, char *out)
{
    for (int64_t done = 0; done < n;) {
        const int64_t k =
            tt_file_read_some(fd, out + done, n - done, at + done);
        if (k < 0)
            return tt_fail(TT_ERR_IO, "cannot be read: %s",
                           tt_file_reason(errno));
        if (k == 0)
            return tt_fail(TT_ERR_IO,
                           "ends at byte %lld: it became shorter while it was "
                           "read; what writes it must be over before",
                           (long long)(at + done));
        done += k;
    }
    return TT_OK;
}

// Takes the header into memory; of what is no safetensors file, its beginning. A
// failing disk, or a file that is cut short, is then an error and not a signal.
static tt_status take_header(tt_safetensors *file, int fd)
{
    unsigned char prefix[TT_SAFETENSORS_PREFIX];
    int64_t n = LOOK;
    if (file->bytes >= TT_SAFETENSORS_PREFIX) {
        TT_TRY(read_all(fd, 0, sizeof prefix, (char *)prefix));
        const int64_t length = TT_SAFETENSORS_PREFIX + read_length(prefix);
        n = length > n ? length : n;
    }
    n = n < file->bytes ? n : file->bytes;
    char *start = tt_arena_alloc(file->arena, n + 1);
    if (start == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for its header");
    file->start = start;
    return read_all(fd, 0, n, start);
}

static tt_status map_fd(tt_safetensors *file, int fd)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return tt_fail(TT_ERR_IO, "cannot be examined: %s",
                       tt_file_reason(errno));
    if (!S_ISREG(info.st_mode))
        return tt_fail(TT_ERR_IO, "not a regular file");
    if (info.st_size == 0)
        return tt_fail(TT_ERR_ARG, "not a safetensors file: it is empty");
    file->bytes = info.st_size;
    TT_TRY(take_header(file, fd));
    void *map = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return tt_fail(TT_ERR_IO, "cannot be mapped: %s",
                       tt_file_reason(errno));
    file->map = map;
    file->device = info.st_dev;
    file->inode = info.st_ino;
    return TT_OK;
}

static tt_status map_file(tt_safetensors *file, const char *path, bool holds)
{
    const int fd = tt_file_open_read(path);
    if (fd < 0)
        return tt_fail(TT_ERR_IO, "cannot be opened: %s",
                       tt_file_reason(errno));
    const tt_status status = map_fd(file, fd);
    if (status == TT_OK && holds)
        file->fd = fd;
    else
        close(fd);
    return status;
}

static bool is_text(const char *start, int64_t bytes)
{
    const int64_t n = bytes < LOOK ? bytes : LOOK;
    const int64_t valid = tt_utf8_valid(start, n);
    for (int64_t i = 0; i < n; i++)
        if (start[i] == '\0' || ((unsigned char)start[i] < ' ' &&
                                 strchr("\t\n\v\f\r\033", start[i]) == NULL))
            return false;
    // The last character may be cut where the look ends.
    return valid == n || (n == LOOK && valid > n - 4);
}

// Says what was given instead of a safetensors file: a Git LFS pointer, a text,
// something else. A text is never taken for one, since its first eight bytes, read
// as a length, are more than any header may have.
static tt_status refuse_other(const char *start, int64_t bytes)
{
    static const char pointer[] = "version https://git-lfs.";
    const int64_t n = (int64_t)sizeof pointer - 1;
    if (bytes >= n && memcmp(start, pointer, (size_t)n) == 0)
        return tt_fail(TT_ERR_ARG,
                       "a pointer of Git LFS in place of the weights; "
                       "`git lfs pull` in its folder fetches them");
    if (is_text(start, bytes))
        return tt_fail(TT_ERR_ARG,
                       "this is text, not a model; give the folder of a run "
                       "or of Hugging Face's, or a file of weights "
                       "(.safetensors, .pt). `tutti train` makes a model from "
                       "text");
    if (bytes < TT_SAFETENSORS_PREFIX)
        return tt_fail(TT_ERR_ARG,
                       "not a safetensors file: it has only %lld bytes",
                       (long long)bytes);
    return tt_fail(TT_ERR_ARG,
                   "not a safetensors file: its header would be longer than "
                   "%d bytes; give a file of weights (.safetensors, .pt) or "
                   "the folder of a model",
                   TT_SAFETENSORS_HEADER_MAX);
}

static tt_status read_header(tt_safetensors *file)
{
    const char *start = file->start;
    const int64_t n = file->bytes < TT_SAFETENSORS_PREFIX
                          ? -1
                          : read_length((const unsigned char *)start);
    const int64_t room = file->bytes - TT_SAFETENSORS_PREFIX;
    if (n < 0)
        return refuse_other(start, file->bytes);
    if (n > room)
        return tt_fail(TT_ERR_ARG,
                       "cut short, or not a safetensors file: the "
                       "header should have %lld bytes but %lld are left",
                       (long long)n, (long long)room);
    TT_TRY(tt_safetensors_header_read(start + TT_SAFETENSORS_PREFIX, n,
                                      room - n, file->arena, &file->table));
    file->header = TT_SAFETENSORS_PREFIX + n;
    for (int64_t i = 0; i < file->table.n; i++) {
        file->table.v[i].data =
            (const char *)file->map + file->header + file->table.v[i].offset;
        file->table.v[i].file = file;
    }
    return TT_OK;
}

// The table stays in the order of offsets, which is the order for reading; a second
// array is sorted by name, for searching.
static int compare_names(const void *a, const void *b, void *table)
{
    const int64_t *i = a, *j = b;
    const tt_safetensor *v = table;
    return strcmp(v[*i].name, v[*j].name);
}

static tt_status index_names(tt_safetensors *file)
{
    const int64_t n = file->table.n;
    int64_t *index = tt_arena_alloc(file->arena, n * (int64_t)sizeof(*index));
    if (index == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++)
        index[i] = i;
    qsort_r(index, (size_t)n, sizeof(*index), compare_names, file->table.v);
    file->by_name = index;
    return TT_OK;
}

static tt_status open_file(const char *path, bool holds,
                           tt_safetensors **file_out)
{
    tt_safetensors *file = tt_alloc(sizeof(*file));
    if (file == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", path);
    file->fd = -1;
    tt_status status = TT_OK;
    file->arena = tt_arena_create();
    if (file->arena != NULL)
        file->path = tt_arena_strdup(file->arena, path);
    if (file->path == NULL)
        status = tt_fail(TT_ERR_NOMEM, "out of memory");
    if (status == TT_OK)
        status = map_file(file, path, holds);
    if (status == TT_OK)
        status = read_header(file);
    if (status == TT_OK)
        status = index_names(file);
    if (status != TT_OK) {
        tt_safetensors_close(file);
        return tt_fail_context(status, "%s", path);
    }
    *file_out = file;
    return TT_OK;
}

tt_status tt_safetensors_open(const char *path, tt_safetensors **file_out)
{
    return open_file(path, false, file_out);
}

tt_status tt_safetensors_hold(const char *path, tt_safetensors **file_out)
{
    return open_file(path, true, file_out);
}

int tt_safetensors_fd(const tt_safetensors *file)
{
    return file->fd;
}

// ---- data ----------------------------------------------------------------

static tt_status read_again(const tt_safetensors *file, int64_t at, int64_t n,
                            char *out)
{
    struct stat info;
    const int fd = tt_file_open_read(file->path);
    if (fd < 0)
        return tt_fail(TT_ERR_IO, "cannot be opened: %s",
                       tt_file_reason(errno));
    const tt_status status =
        fstat(fd, &info) != 0 || info.st_dev != file->device ||
                info.st_ino != file->inode
            ? tt_fail(TT_ERR_IO, "was replaced by another while it was read")
            : read_all(fd, at, n, out);
    close(fd);
    return status;
}

tt_status tt_safetensor_copy(const tt_safetensor *tensor, int64_t from,
                             int64_t n, void *out)
{
    const tt_safetensors *file = tensor->file;
    if (file == NULL) { // it is in memory
        memcpy(out, (const char *)tensor->data + from, (size_t)n);
        return TT_OK;
    }
    const int64_t at = file->header + tensor->offset + from;
    const tt_status status = file->fd >= 0 ? read_all(file->fd, at, n, out)
                                           : read_again(file, at, n, out);
    return status == TT_OK ? status : tt_fail_context(status, "%s", file->path);
}

void tt_safetensors_close(tt_safetensors *file)
{
    if (file == NULL)
        return;
    if (file->map != NULL)
        munmap(file->map, (size_t)file->bytes);
    if (file->fd >= 0)
        close(file->fd);
    tt_arena_destroy(file->arena);
    tt_free(file);
}

const char *tt_safetensors_path(const tt_safetensors *file)
{
    return file->path;
}

int64_t tt_safetensors_header_bytes(const tt_safetensors *file)
{
    return file->header;
}

const void *tt_safetensors_header(const tt_safetensors *file)
{
    return file->start;
}

void tt_safetensors_set_sum(tt_safetensors *file, int64_t i, uint64_t sum)
{
    file->table.v[i].has_sum = true;
    file->table.v[i].sum = sum;
}

int64_t tt_safetensors_count(const tt_safetensors *file)
{
    return file->table.n;
}

const tt_safetensor *tt_safetensors_at(const tt_safetensors *file, int64_t i)
{
    return &file->table.v[i];
}

const tt_safetensor *tt_safetensors_find(const tt_safetensors *file,
                                         const char *name)
{
    int64_t first = 0, last = file->table.n - 1;
    while (first <= last) {
        const int64_t middle = first + (last - first) / 2;
        const tt_safetensor *t = &file->table.v[file->by_name[middle]];
        const int order = strcmp(name, t->name);
        if (order == 0)
            return t;
        if (order < 0)
            last = middle - 1;
        else
            first = middle + 1;
    }
    return NULL;
}

const tt_safetensors_note *tt_safetensors_notes(const tt_safetensors *file,
                                                int64_t *n)
{
    *n = file->table.n_notes;
    return file->table.notes;
}

const char *tt_safetensors_note_find(const tt_safetensors *file,
                                     const char *key)
{
    for (int64_t i = 0; i < file->table.n_notes; i++)
        if (strcmp(file->table.notes[i].key, key) == 0)
            return file->table.notes[i].value;
    return NULL;
}
