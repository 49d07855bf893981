// file_read - a regular file as a whole, within a limit.

#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static tt_status read_all(int fd, const char *path, int64_t bytes, tt_str *out)
{
    char *text = tt_realloc(out->text, out->capacity, out->n + bytes + 1);
    if (text == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", path);
    out->text = text;
    out->capacity = out->n + bytes + 1;
    const int64_t end = out->n + bytes;
    while (out->n < end) {
        const ssize_t done = read(fd, text + out->n, (size_t)(end - out->n));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return tt_fail(TT_ERR_IO, "%s: cannot be read: %s", path,
                           strerror(errno));
        if (done == 0) // it became shorter meanwhile
            break;
        out->n += done;
    }
    text[out->n] = '\0';
    return TT_OK;
}

tt_status tt_file_read(const char *path, int64_t max, tt_str *out)
{
    struct stat info;
    TT_TRY(tt_str_status(out));
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return tt_fail(TT_ERR_IO, "%s: cannot be opened: %s", path,
                       strerror(errno));
    tt_status status = TT_OK;
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
        status = tt_fail(TT_ERR_IO, "%s: not a regular file", path);
    else if (info.st_size > max)
        status = tt_fail(TT_ERR_ARG, "%s: has %lld bytes; at most %lld", path,
                         (long long)info.st_size, (long long)max);
    else
        status = read_all(fd, path, info.st_size, out);
    close(fd);
    return status;
}
