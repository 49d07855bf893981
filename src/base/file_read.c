// file_read - a regular file as a whole, within a limit.
//
// Calls that a signal interrupts are repeated, and every call passes the gate for
// reading, so that tests can make it fail (file_gate.h). Files are opened without
// waiting (O_NONBLOCK): opening a pipe would otherwise hang until somebody writes.

#include "base/alloc.h"
#include "base/file.h"
#include "base/file_gate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_TRIES = 1000 }; // of a call that is interrupted

bool tt_file_is_absent(int error)
{
    return error == ENOENT || error == ENOTDIR;
}

int tt_file_open_read(const char *path)
{
    int fd = -1;
    for (int i = 0; i < MAX_TRIES; i++) {
        fd = tt__file_is_unread()
                 ? -1
                 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0 || errno != EINTR)
            break;
    }
    return fd;
}

int64_t tt_file_read_some(int fd, void *out, int64_t n, int64_t offset)
{
    ssize_t done = -1;
    for (int i = 0; i < MAX_TRIES; i++) {
        if (tt__file_is_unread())
            done = -1;
        else
            done = offset < 0 ? read(fd, out, (size_t)n)
                              : pread(fd, out, (size_t)n, offset);
        if (done >= 0 || errno != EINTR)
            break;
    }
    return done;
}

static tt_status read_all(int fd, const char *path, int64_t bytes, tt_str *out)
{
    char *text = tt_realloc(out->text, out->capacity, out->n + bytes + 1);
    if (text == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", path);
    out->text = text;
    out->capacity = out->n + bytes + 1;
    const int64_t end = out->n + bytes;
    while (out->n < end) {
        const int64_t done =
            tt_file_read_some(fd, text + out->n, end - out->n, -1);
        if (done < 0)
            return tt_fail(TT_ERR_IO, "%s: cannot be read: %s", path,
                           tt_file_reason(errno));
        if (done == 0) // it became shorter meanwhile
            break;
        out->n += done;
    }
    text[out->n] = '\0';
    return TT_OK;
}

static tt_status read_fd(int fd, const char *path, int64_t max, tt_str *out)
{
    struct stat info;
    if (fstat(fd, &info) != 0)
        return tt_fail(TT_ERR_IO, "%s: cannot be examined: %s", path,
                       tt_file_reason(errno));
    if (!S_ISREG(info.st_mode))
        return tt_fail(TT_ERR_IO, "%s: not a regular file", path);
    if (info.st_size > max)
        return tt_fail(TT_ERR_ARG, "%s: has %lld bytes; at most %lld", path,
                       (long long)info.st_size, (long long)max);
    return read_all(fd, path, info.st_size, out);
}

tt_status tt_file_read_if(const char *path, int64_t max, tt_str *out,
                          bool *found_out)
{
    TT_TRY(tt_str_status(out));
    const int fd = tt_file_open_read(path);
    *found_out = fd >= 0 || !tt_file_is_absent(errno);
    if (fd < 0 && !*found_out)
        return TT_OK;
    if (fd < 0)
        return tt_fail(TT_ERR_IO, "%s: cannot be opened: %s", path,
                       tt_file_reason(errno));
    const tt_status status = read_fd(fd, path, max, out);
    close(fd);
    return status;
}

tt_status tt_file_read(const char *path, int64_t max, tt_str *out)
{
    bool found = false;
    TT_TRY(tt_file_read_if(path, max, out, &found));
    return found ? TT_OK
                 : tt_fail(TT_ERR_IO, "%s: cannot be opened: %s", path,
                           tt_file_reason(errno));
}

static bool is_real(const char *name)
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static DIR *open_folder(const char *folder)
{
    DIR *dir = NULL;
    for (int i = 0; i < MAX_TRIES && dir == NULL; i++) {
        dir = tt__file_is_unread() ? NULL : opendir(folder);
        if (dir == NULL && errno != EINTR)
            break;
    }
    return dir;
}

// NULL with errno 0: there is no other.
static const struct dirent *next_entry(DIR *dir)
{
    const struct dirent *e = NULL;
    for (int i = 0; i < MAX_TRIES && e == NULL; i++) {
        errno = 0;
        e = tt__file_is_unread() ? NULL : readdir(dir);
        if (e == NULL && errno != EINTR)
            break;
    }
    return e;
}

tt_status tt_file_each(const char *folder, tt_file_visit_fn *visit, void *user)
{
    tt_status status = TT_OK;
    DIR *dir = open_folder(folder);
    const struct dirent *e = NULL;
    if (dir == NULL)
        return tt_fail(TT_ERR_IO, "%s: cannot be read: %s", folder,
                       tt_file_reason(errno));
    while (status == TT_OK && (e = next_entry(dir)) != NULL)
        if (is_real(e->d_name))
            status = visit(user, e->d_name);
    if (status == TT_OK && errno != 0)
        status = tt_fail(TT_ERR_IO, "%s: cannot be read: %s", folder,
                         tt_file_reason(errno));
    closedir(dir);
    return status;
}

const char *tt_file_reason(int error)
{
    switch (error) {
    case EEXIST:
        return "something of that name is there already";
    case EISDIR:
        return "it is a folder, and a file is wanted";
    case ENOTDIR:
        return "a part of the path is a file, and a folder is wanted";
    default:
        return strerror(error);
    }
}
