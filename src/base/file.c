// file - system calls that write. Each passes one gate first. See file.h.
//
// The gate (file_gate.h) counts calls and can make any of them fail or kill the process
// there. Tests go through all numbers: so every write, flush and rename of a checkpoint
// has been the last one. What was done to the disk is also told to a recorder, from
// which tests compute what a power cut could have left.
//
// Calls that a signal interrupts are repeated. Messages say what was being done to
// which file, and name a full disk or a quota in plain words.

#include "base/file.h"

#include "base/file_gate.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static tt_status fail(const char *path, const char *what, int error)
{
    if (error == ENOSPC)
        return tt_fail(TT_ERR_IO, "%s: %s: the disk is full (%s)", path, what,
                       tt_file_reason(error));
    if (error == EDQUOT)
        return tt_fail(TT_ERR_IO, "%s: %s: the disk quota is used up (%s)",
                       path, what, tt_file_reason(error));
    if (error == EFAULT) // bytes of a mapped file that are no longer there
        return tt_fail(TT_ERR_IO,
                       "%s: %s: the file that its content comes from became "
                       "shorter",
                       path, what);
    return tt_fail(TT_ERR_IO, "%s: %s: %s", path, what, tt_file_reason(error));
}

// Messages call the file `path`, whatever its name is while it is written.
static tt_status open_file(tt_file *file, const char *name, const char *path,
                           int flags)
{
    int fd = -1;
    do
        fd = tt__file_is_refused() ? -1 : open(name, flags | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    if (fd < 0 && errno == ELOOP && (flags & O_NOFOLLOW) != 0)
        return tt_fail(TT_ERR_IO,
                       "%s: is a symbolic link, and what it names is not "
                       "touched; remove it",
                       path);
    if (fd < 0)
        return fail(path, "cannot be created", errno);
    *file = (tt_file){.fd = fd, .path = path};
    tt__file_tell((tt_file_deed){.act = TT_FILE_OPENED, .path = name}, fd);
    return TT_OK;
}

tt_status tt_file_create(tt_file *file, const char *path)
{
    return open_file(file, path, path, O_WRONLY | O_CREAT | O_EXCL);
}

tt_status tt_file_append(tt_file *file, const char *path)
{
    return open_file(file, path, path,
                     O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOFOLLOW);
}

static ssize_t write_once(int fd, const char *p, int64_t n)
{
    const int64_t most = 1 << 30;
    const int error = tt__file_gate();
    if (error > 0) {
        errno = error;
        return -1;
    }
    if (error == TT_FILE_SHORT)
        n = 1;
    return write(fd, p, (size_t)(n < most ? n : most));
}

tt_status tt_file_write(tt_file *file, const void *bytes, int64_t n)
{
    const char *p = bytes;
    while (n > 0) {
        const ssize_t done = write_once(file->fd, p, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return fail(file->path, "cannot be written", errno);
        tt__file_tell(
            (tt_file_deed){.act = TT_FILE_WROTE, .bytes = p, .n = done},
            file->fd);
        p += done;
        n -= done;
    }
    return TT_OK;
}

// `path`: of a folder, else NULL.
static int sync_fd(int fd, const char *path)
{
    int done = -1;
    do
        done = tt__file_is_refused() ? -1 : fsync(fd);
    while (done != 0 && errno == EINTR);
    if (done == 0)
        tt__file_tell((tt_file_deed){.act = TT_FILE_SYNCED, .path = path}, fd);
    return done;
}

tt_status tt_file_sync(tt_file *file)
{
    if (sync_fd(file->fd, NULL) != 0)
        return fail(file->path, "cannot be flushed", errno);
    return TT_OK;
}

tt_status tt_file_cut(tt_file *file, int64_t bytes)
{
    int done = -1;
    do
        done = tt__file_is_refused() ? -1 : ftruncate(file->fd, bytes);
    while (done != 0 && errno == EINTR);
    if (done != 0)
        return fail(file->path, "cannot be cut", errno);
    tt__file_tell((tt_file_deed){.act = TT_FILE_CUT, .n = bytes}, file->fd);
    return TT_OK;
}

tt_status tt_file_size(const tt_file *file, int64_t *bytes_out)
{
    struct stat info;
    if (fstat(file->fd, &info) != 0)
        return fail(file->path, "cannot be examined", errno);
    *bytes_out = info.st_size;
    return TT_OK;
}

tt_status tt_file_close(tt_file *file)
{
    if (file->fd < 0)
        return TT_OK;
    const int error = tt__file_gate();
    const int done = close(file->fd); // closed even when it fails
    file->fd = -1;
    if (error > 0 && error != EINTR)
        return fail(file->path, "cannot be written", error);
    if (done != 0 && errno != EINTR)
        return fail(file->path, "cannot be written", errno);
    return TT_OK;
}

tt_status tt_file_finish(tt_file *file, tt_status status)
{
    if (status == TT_OK)
        status = tt_file_sync(file);
    if (status == TT_OK)
        return tt_file_close(file);
    if (file->fd >= 0)
        (void)close(file->fd);
    file->fd = -1;
    return status;
}

tt_status tt_file_rename(const char *from, const char *to)
{
    int done = -1;
    do
        done = tt__file_is_refused() ? -1 : rename(from, to);
    while (done != 0 && errno == EINTR);
    if (done != 0)
        return fail(to, "cannot be replaced", errno);
    tt__file_tell(
        (tt_file_deed){.act = TT_FILE_RENAMED, .path = from, .to = to}, -1);
    return TT_OK;
}

tt_status tt_file_exchange(const char *a, const char *b)
{
    int done = -1;
    do
        done = tt__file_is_refused()
                   ? -1
                   : renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
    while (done != 0 && errno == EINTR);
    if (done == 0) {
        tt__file_tell(
            (tt_file_deed){.act = TT_FILE_EXCHANGED, .path = a, .to = b}, -1);
        return TT_OK;
    }
    if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)
        return tt_fail(TT_ERR_UNSUPPORTED, "%s: cannot be exchanged here", b);
    return fail(b, "cannot be replaced", errno);
}

tt_status tt_file_sync_folder(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail(folder, "cannot be opened", errno);
    const int done = sync_fd(fd, folder);
    const int error = errno;
    close(fd);
    // Some file systems have nothing to flush there and say so like this.
    if (done != 0 && error != EINVAL && error != EOPNOTSUPP)
        return fail(folder, "cannot be flushed", error);
    return TT_OK;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

tt_status tt_file_sync_folder_of(const char *path)
{
    char folder[PATH_MAX];
    const int n = (int)(name_of(path) - path);
    snprintf(folder, sizeof(folder), "%.*s", n > 0 ? n : 1, n > 0 ? path : ".");
    return tt_file_sync_folder(folder);
}

static tt_status fail_no_folder(const char *path)
{
    return tt_fail(TT_ERR_IO,
                   "%s is a file and no folder: give another name, or move the "
                   "file away",
                   path);
}

static tt_status make_one(const char *folder)
{
    int done = -1;
    if (tt_file_is_folder(folder))
        return TT_OK;
    do
        done = tt__file_is_refused() ? -1 : mkdir(folder, 0777);
    while (done != 0 && errno == EINTR);
    const int error = errno;
    if (done != 0 && (error != EEXIST || !tt_file_is_folder(folder)))
        return error == EEXIST ? fail_no_folder(folder)
                               : fail(folder, "cannot be made", error);
    if (done != 0)
        return TT_OK;
    tt__file_tell((tt_file_deed){.act = TT_FILE_MADE, .path = folder}, -1);
    return tt_file_sync_folder_of(folder);
}

// The nearest one upwards that is there must be a folder in which one may write.
tt_status tt_file_check_folder(const char *folder)
{
    char path[PATH_MAX];
    const size_t n = strlen(folder);
    if (n == 0 || n >= sizeof(path))
        return tt_fail(TT_ERR_ARG, "\"%.100s\" is no name for a folder",
                       folder);
    memcpy(path, folder, n + 1);
    while (!tt_file_exists(path) && strcmp(path, ".") != 0) {
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            memcpy(path, ".", 2);
        else
            slash[slash == path] = '\0';
    }
    if (!tt_file_is_folder(path))
        return fail_no_folder(path);
    if (access(path, W_OK | X_OK) != 0)
        return fail(folder,
                    tt_file_is_folder(folder) ? "cannot be written"
                                              : "cannot be made",
                    errno);
    return TT_OK;
}

tt_status tt_file_make_folder(const char *folder)
{
    char path[PATH_MAX];
    const size_t n = strlen(folder);
    if (n == 0 || n >= sizeof(path))
        return tt_fail(TT_ERR_ARG, "\"%.100s\" is no name for a folder",
                       folder);
    memcpy(path, folder, n + 1);
    for (size_t i = 1; i < n; i++) {
        if (path[i] != '/' || path[i - 1] == '/')
            continue;
        path[i] = '\0';
        TT_TRY(make_one(path));
        path[i] = '/';
    }
    return make_one(path);
}

static int remove_one(const char *path, const struct stat *info, int type,
                      struct FTW *at)
{
    (void)info, (void)type, (void)at;
    int done = -1;
    do
        done = tt__file_is_refused() ? -1 : remove(path);
    while (done != 0 && errno == EINTR);
    if (done == 0)
        tt__file_tell((tt_file_deed){.act = TT_FILE_REMOVED, .path = path}, -1);
    return done != 0 && errno != ENOENT ? errno : 0;
}

tt_status tt_file_remove(const char *path)
{
    const int descriptors = 8;
    int error = nftw(path, remove_one, descriptors, FTW_DEPTH | FTW_PHYS);
    if (error < 0)
        error = errno == ENOENT ? 0 : errno;
    return error == 0 ? TT_OK : fail(path, "cannot be removed", error);
}

// In the same folder, since a rename does not cross file systems; with process id and a
// serial number, so that two writers never share one.
tt_status tt_file_temporary(const char *path, char name[PATH_MAX])
{
    static atomic_int serial;
    const char *last = name_of(path);
    const int n =
        snprintf(name, PATH_MAX, "%.*s.tmp-%s-%ld-%d", (int)(last - path), path,
                 last, (long)getpid(), atomic_fetch_add(&serial, 1));
    if (n < 0 || n >= PATH_MAX)
        return tt_fail(TT_ERR_ARG, "%.200s...: the name is too long", path);
    return TT_OK;
}

tt_status tt_file_begin(tt_file *file, const char *path,
                        char temporary[PATH_MAX])
{
    TT_TRY(tt_file_temporary(path, temporary));
    return open_file(file, temporary, path, O_WRONLY | O_CREAT | O_EXCL);
}

// The order is what makes it safe: flush the file, rename it, flush the folder.
// Whenever the power fails, the name stands for the old content or for the new, both
// complete.
tt_status tt_file_end(tt_file *file, const char *temporary, tt_status status)
{
    status = tt_file_finish(file, status);
    if (status == TT_OK)
        status = tt_file_rename(temporary, file->path);
    if (status == TT_OK)
        return tt_file_sync_folder_of(file->path);
    (void)unlink(temporary);
    return status;
}

tt_status tt_file_replace(const char *path, const void *bytes, int64_t n)
{
    char temporary[PATH_MAX];
    tt_file file = TT_FILE_CLOSED;
    TT_TRY(tt_file_begin(&file, path, temporary));
    return tt_file_end(&file, temporary, tt_file_write(&file, bytes, n));
}

// ".tmp-...-DIGITS-DIGITS"
static bool is_temporary(const char *name)
{
    if (strncmp(name, ".tmp-", 5) != 0)
        return false;
    size_t n = strlen(name);
    for (int part = 0; part < 2; part++) {
        const size_t end = n;
        while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9')
            n--;
        if (n == end || n < 6 || name[n - 1] != '-')
            return false;
        n--;
    }
    return true;
}

static tt_status sweep_one(void *user, const char *name)
{
    const char *folder = user;
    char path[PATH_MAX];
    const int n = snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (!is_temporary(name) || n < 0 || n >= PATH_MAX)
        return TT_OK;
    return tt_file_remove(path);
}

// Temporary files of processes that were killed.
tt_status tt_file_sweep(const char *folder)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof(copy), "%s", folder);
    return tt_file_each(folder, sweep_one, copy);
}

bool tt_file_is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

const char *tt_file_oddity(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0 || S_ISREG(info.st_mode) ||
        S_ISDIR(info.st_mode))
        return NULL;
    return S_ISSOCK(info.st_mode)   ? "a socket"
           : S_ISFIFO(info.st_mode) ? "a pipe"
                                    : "a device";
}

bool tt_file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}
