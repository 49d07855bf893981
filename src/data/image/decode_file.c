// decode_file - files of images, read as a whole.

#include "data/image/decode_file.h"

#include "base/alloc.h"
#include "base/file.h"
#include "data/image/decode.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PROBES = 16 };

static tt_status check_extent(int fd, const char *path, int64_t offset,
                              int64_t *n)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return tt_fail(TT_ERR_IO, "%s: %s", path, tt_file_reason(errno));
    if (!S_ISREG(st.st_mode))
        return tt_fail(TT_ERR_ARG, "%s is not a file", path);
    if (*n < 0)
        *n = st.st_size - offset;
    if (*n < 0 || offset > st.st_size - *n)
        return tt_fail(TT_ERR_IO,
                       "%s: %lld bytes at byte %lld are not there any more: "
                       "the file has %lld bytes",
                       path, (long long)*n, (long long)offset,
                       (long long)st.st_size);
    return TT_OK;
}

static tt_status read_all(int fd, const char *path, int64_t offset,
                          const tt_encoded *to)
{
    for (int64_t done = 0; done < to->n;) {
        const ssize_t k =
            pread(fd, to->bytes + done, (size_t)(to->n - done), offset + done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return tt_fail(TT_ERR_IO, "%s: byte %lld cannot be read: %s", path,
                           (long long)(offset + done),
                           k < 0 ? tt_file_reason(errno)
                                 : "the file became shorter");
        done += k;
    }
    return TT_OK;
}

tt_status tt_encoded_read(const char *path, int64_t offset, int64_t n,
                          tt_encoded *out)
{
    tt_encoded e = {.n = n};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return tt_fail(TT_ERR_IO, "%s: %s", path, tt_file_reason(errno));
    tt_status status = check_extent(fd, path, offset, &e.n);
    if (status != TT_OK)
        goto out;
    e.bytes = tt_alloc(e.n);
    status = e.bytes == NULL ? tt_fail(TT_ERR_NOMEM,
                                       "%s: there is no memory for %lld bytes",
                                       path, (long long)e.n)
                             : read_all(fd, path, offset, &e);
    if (status != TT_OK)
        goto out;
    *out = e;
    e.bytes = NULL;
out:
    tt_free(e.bytes);
    (void)close(fd);
    return status;
}

tt_status tt_encoded_image(tt_encoded_fn *read_encoded, const tt_source *source,
                           int64_t index, tt_image *out)
{
    tt_encoded e = {0};
    TT_TRY(read_encoded(source, index, &e));
    const tt_status status = tt_decode(e.bytes, e.n, out);
    tt_free(e.bytes);
    return status == TT_OK ? status : tt_source_blame(source, index, status);
}

static tt_status probe_one(tt_encoded_fn *read_encoded, const tt_source *source,
                           int64_t index, tt_image *size)
{
    tt_encoded e = {0};
    TT_TRY(read_encoded(source, index, &e));
    const tt_status status = tt_decode_size(e.bytes, e.n, size);
    tt_free(e.bytes);
    return status == TT_OK ? status : tt_source_blame(source, index, status);
}

tt_status tt_encoded_probe(tt_encoded_fn *read_encoded, tt_source *source,
                           const tt_source_request *request)
{
    const int64_t n = source->n < PROBES ? source->n : PROBES;
    tt_image all = {0};
    bool is_color = false;
    for (int64_t i = 0; i < n; i++) {
        tt_image one = {0};
        TT_TRY(probe_one(read_encoded, source, i * (source->n / n), &one));
        is_color |= one.channels == 3;
        if (i == 0)
            all = one;
        if (one.height != all.height || one.width != all.width)
            all.height = all.width = 0;
    }
    const bool is_told = request->channels == 1 || request->channels == 3;
    source->channels = is_told ? request->channels : is_color ? 3 : 1;
    if (request->image > 0 &&
        (all.height != request->image || all.width != request->image))
        all.height = all.width = 0;
    source->height = all.height;
    source->width = all.width;
    return TT_OK;
}
