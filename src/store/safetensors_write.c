// safetensors_write - the writer. Wide types first, then by name; the header is
// padded to 8 bytes, so that every tensor is aligned to its type.

#include "base/alloc.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/str.h"
#include "store/safetensors.h"
#include "store/safetensors_header.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int in_file_order(const void *a, const void *b)
{
    const tt_safetensor *x = a, *y = b;
    const int difference =
        tt_safetensors_rank(x->dtype) - tt_safetensors_rank(y->dtype);
    return difference != 0 ? difference : strcmp(x->name, y->name);
}

// A sorted copy with bytes and offsets filled in.
static tt_status lay_out(const tt_safetensor *tensors, int64_t n,
                         tt_arena *arena, tt_safetensor **sorted_out)
{
    tt_safetensor *v =
        tt_arena_copy(arena, tensors, n * (int64_t)sizeof(*tensors));
    int64_t offset = 0;
    if (v == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) {
        TT_TRY(tt_safetensors_size(&v[i], &v[i].bytes));
        if (v[i].data == NULL && v[i].bytes > 0)
            return tt_fail(TT_ERR_ARG, "tensor \"%s\": has no data", v[i].name);
    }
    qsort(v, (size_t)n, sizeof(*v), in_file_order);
    for (int64_t i = 0; i < n; i++) {
        v[i].offset = offset;
        if (__builtin_add_overflow(offset, v[i].bytes, &offset))
            return tt_fail(TT_ERR_ARG, "the tensors are too large together");
    }
    *sorted_out = v;
    return TT_OK;
}

static void print_tensor(tt_json *json, const tt_safetensor *t)
{
    tt_json_open(json, t->name, '{');
    tt_json_str(json, "dtype", t->dtype);
    tt_json_open(json, "shape", '[');
    for (int64_t i = 0; i < t->ndim; i++)
        tt_json_i64(json, NULL, t->shape[i]);
    tt_json_close(json, ']');
    tt_json_open(json, "data_offsets", '[');
    tt_json_i64(json, NULL, t->offset);
    tt_json_i64(json, NULL, t->offset + t->bytes);
    tt_json_close(json, ']');
    tt_json_close(json, '}');
}

static tt_status print_header(const tt_safetensor *v, int64_t n,
                              const tt_safetensors_note *notes, int64_t n_notes,
                              tt_str *out)
{
    tt_json json = {.out = out, .is_compact = true};
    tt_json_open(&json, NULL, '{');
    if (n_notes > 0) {
        tt_json_open(&json, "__metadata__", '{');
        for (int64_t i = 0; i < n_notes; i++)
            tt_json_str(&json, notes[i].key, notes[i].value);
        tt_json_close(&json, '}');
    }
    for (int64_t i = 0; i < n; i++)
        print_tensor(&json, &v[i]);
    tt_json_close(&json, '}');
    while (out->n % 8 != 0 && tt_str_status(out) == TT_OK)
        tt_str_add(out, " ");
    return tt_str_status(out);
}

// Reads the header as a reader will: names given twice, names that are not
// UTF-8 and a header beyond the format's limit are found here.
static tt_status check_header(const tt_str *header, const tt_safetensor *v,
                              int64_t n, tt_arena *arena)
{
    tt_safetensors_table table = {0};
    const int64_t data_bytes = n > 0 ? v[n - 1].offset + v[n - 1].bytes : 0;
    if (header->n > TT_SAFETENSORS_HEADER_MAX)
        return tt_fail(TT_ERR_ARG, "the header would be longer than %d bytes",
                       TT_SAFETENSORS_HEADER_MAX);
    TT_TRY(tt_safetensors_header_read(header->text, header->n, data_bytes,
                                      arena, &table));
    if (table.n != n)
        return tt_fail(TT_ERR_ARG, "no tensor may be called __metadata__");
    return TT_OK;
}

static tt_status write_bytes(int fd, const void *bytes, int64_t n)
{
    const int64_t most = 1 << 30;
    const char *p = bytes;
    while (n > 0) {
        const ssize_t written = write(fd, p, (size_t)(n < most ? n : most));
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return tt_fail(TT_ERR_IO, "cannot be written: %s", strerror(errno));
        p += written;
        n -= written;
    }
    return TT_OK;
}

static tt_status write_all(int fd, const tt_str *header, const tt_safetensor *v,
                           int64_t n)
{
    unsigned char length[TT_SAFETENSORS_PREFIX];
    for (int i = 0; i < TT_SAFETENSORS_PREFIX; i++)
        length[i] = (unsigned char)((uint64_t)header->n >> (8 * i));
    TT_TRY(write_bytes(fd, length, sizeof(length)));
    TT_TRY(write_bytes(fd, header->text, header->n));
    for (int64_t i = 0; i < n; i++)
        TT_TRY(write_bytes(fd, v[i].data, v[i].bytes));
    if (fsync(fd) != 0)
        return tt_fail(TT_ERR_IO, "cannot be written: %s", strerror(errno));
    return TT_OK;
}

// Makes the new name itself survive a crash; some file systems cannot.
static void sync_folder(const char *path, tt_arena *arena)
{
    char *folder = tt_arena_strdup(arena, path);
    if (folder == NULL)
        return;
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        slash[slash == folder] = '\0';
    const int fd =
        open(slash != NULL ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

static tt_status write_file(const char *path, const tt_str *header,
                            const tt_safetensor *v, int64_t n, tt_arena *arena)
{
    static atomic_int serial;
    const char *temporary =
        tt_arena_printf(arena, "%s.tmp-%ld-%d", path, (long)getpid(),
                        atomic_fetch_add(&serial, 1));
    if (temporary == NULL)
        return TT_ERR_NOMEM;
    const int fd =
        open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return tt_fail(TT_ERR_IO, "cannot be created: %s", strerror(errno));
    tt_status status = write_all(fd, header, v, n);
    if (close(fd) != 0 && status == TT_OK)
        status = tt_fail(TT_ERR_IO, "cannot be written: %s", strerror(errno));
    if (status == TT_OK && rename(temporary, path) != 0)
        status = tt_fail(TT_ERR_IO, "cannot be replaced: %s", strerror(errno));
    if (status != TT_OK)
        unlink(temporary);
    else
        sync_folder(path, arena);
    return status;
}

tt_status tt_safetensors_write(const char *path, const tt_safetensor *tensors,
                               int64_t n, const tt_safetensors_note *notes,
                               int64_t n_notes)
{
    tt_status status = TT_OK;
    tt_str header = {0};
    tt_safetensor *sorted = NULL;
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", path);
    status = lay_out(tensors, n, arena, &sorted);
    if (status == TT_OK)
        status = print_header(sorted, n, notes, n_notes, &header);
    if (status == TT_OK)
        status = check_header(&header, sorted, n, arena);
    if (status == TT_OK)
        status = write_file(path, &header, sorted, n, arena);
    tt_str_fini(&header);
    tt_arena_destroy(arena);
    return status == TT_OK ? TT_OK : tt_fail_context(status, "%s", path);
}
