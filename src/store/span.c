// span - see the header.
//
// Ranks on several hosts open the same path and must be sure that it is the same
// file, not a stale copy or another checkpoint. Size, inode, time and the hash of
// the header are compared. That reads a few kilobytes, not the data; damage of the
// data is found by the tensors' sums.

#include "store/span.h"

#include "base/alloc.h"
#include "base/file.h"
#include "store/safetensors_header.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void note_identity(const struct stat *info, tt_span_file *out)
{
    out->bytes = info->st_size;
    out->inode = (int64_t)info->st_ino;
    out->seconds = info->st_mtim.tv_sec;
    out->nanoseconds = info->st_mtim.tv_nsec;
}

static bool is_same(const tt_span_file *a, const tt_span_file *b)
{
    return a->bytes == b->bytes && a->inode == b->inode &&
           a->seconds == b->seconds && a->nanoseconds == b->nanoseconds &&
           strcmp(a->hash, b->hash) == 0;
}

tt_status tt_span_read(tt_span *span, int64_t offset, int64_t n, void *out)
{
    char *to = out;
    for (int64_t done = 0; done < n;) {
        const int64_t k =
            tt_file_read_some(span->fd, to + done, n - done, offset + done);
        if (k < 0)
            return tt_fail(TT_ERR_IO, "cannot be read: %s",
                           tt_file_reason(errno));
        if (k == 0)
            return tt_fail(TT_ERR_ARG, "ends at byte %lld",
                           (long long)(offset + done));
        done += k;
        span->bytes_read += k;
    }
    return TT_OK;
}

static tt_status hash_header(tt_span *span, int64_t n, char hash[TT_HASH_CHARS])
{
    char *header = tt_alloc(n + 1);
    if (header == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for its header");
    const tt_status status = tt_span_read(span, 0, n, header);
    if (status == TT_OK)
        tt_hash_text(header, n, hash);
    tt_free(header);
    return status;
}

// Opens a path and describes the file there; its first `header` bytes are the
// header.
static tt_status look(tt_span *span, const char *path, int64_t header,
                      tt_span_file *out)
{
    struct stat info;
    span->fd = tt_file_open_read(path);
    if (span->fd < 0)
        return tt_fail(TT_ERR_IO, "cannot be opened: %s",
                       tt_file_reason(errno));
    if (fstat(span->fd, &info) != 0 || !S_ISREG(info.st_mode))
        return tt_fail(TT_ERR_IO, "not a regular file");
    note_identity(&info, out);
    out->header = header;
    return hash_header(span, header, out->hash);
}

tt_status tt_span_describe(const tt_safetensors *file, tt_span_file *out)
{
    const char *path = tt_safetensors_path(file);
    tt_span_file found = {.header = tt_safetensors_header_bytes(file)};
    const int fd = tt_safetensors_fd(file);
    struct stat info;
    if (realpath(path, found.path) == NULL) {
        if (fd < 0 || !tt_file_is_absent(errno) || strlen(path) >= PATH_MAX)
            return tt_fail(TT_ERR_IO, "%s: cannot be found: %s", path,
                           tt_file_reason(errno));
        snprintf(found.path, sizeof found.path, "%s", path); // removed by now
    }
    if ((fd >= 0 ? fstat(fd, &info) : stat(found.path, &info)) != 0)
        return tt_fail(TT_ERR_IO, "%s: cannot be found: %s", path,
                       tt_file_reason(errno));
    note_identity(&info, &found);
    tt_hash_text(tt_safetensors_header(file), found.header, found.hash);
    *out = found;
    return TT_OK;
}

tt_status tt_span_open(tt_span *span, const tt_span_file *file)
{
    tt_span_file found = {0};
    *span = TT_SPAN_CLOSED;
    tt_status status = look(span, file->path, file->header, &found);
    if (status == TT_OK && !is_same(&found, file))
        status = tt_fail(TT_ERR_ARG, "is another file there");
    if (status == TT_OK)
        return TT_OK;
    tt_span_close(span);
    return tt_fail_context(status, "%s", file->path);
}

tt_status tt_span_take(tt_span *span, const tt_span_file *file,
                       const tt_safetensors *held)
{
    const int fd = tt_safetensors_fd(held);
    if (fd < 0)
        return tt_span_open(span, file);
    *span = (tt_span){.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0),
                      .bytes_read = file->header};
    return span->fd >= 0 ? TT_OK
                         : tt_fail(TT_ERR_IO, "%s: cannot be opened: %s",
                                   file->path, tt_file_reason(errno));
}

void tt_span_close(tt_span *span)
{
    if (span->fd >= 0)
        close(span->fd);
    span->fd = -1;
}
