// file_lock - a folder has one owner at a time: flock on a file in it, which the
// system lets go of however the owner ends.

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static tt_status path_of(const char *folder, char path[PATH_MAX])
{
    const int n = snprintf(path, PATH_MAX, "%s/.lock", folder);
    if (n < 0 || n >= PATH_MAX)
        return tt_fail(TT_ERR_ARG, "%.200s...: the name is too long", folder);
    return TT_OK;
}

// What the owner wrote: "PID HOST". 0 when it is not known or of another machine.
static long read_owner(const char *path)
{
    char host[65] = {0}, owner[65] = {0};
    tt_str text = {0};
    long pid = 0;
    const bool is_here =
        tt_file_read(path, 1 << 10, &text) == TT_OK &&
        sscanf(tt_str_text(&text), "%ld %64s", &pid, owner) == 2 &&
        gethostname(host, sizeof(host) - 1) == 0 && strcmp(host, owner) == 0;
    tt_str_fini(&text);
    return is_here ? pid : 0;
}

// For messages only: a full disk is no reason to fail.
static void write_owner(tt_file *lock)
{
    char text[128], host[65] = {0};
    (void)gethostname(host, sizeof(host) - 1);
    const int n =
        snprintf(text, sizeof(text), "%ld %s\n", (long)getpid(), host);
    if (tt_file_cut(lock, 0) == TT_OK)
        (void)tt_file_write(lock, text, n);
}

tt_status tt_file_lock(const char *folder, tt_file *lock_out)
{
    char path[PATH_MAX];
    tt_file lock = TT_FILE_CLOSED;
    TT_TRY(path_of(folder, path));
    TT_TRY(tt_file_append(&lock, path));
    if (flock(lock.fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        const long pid = read_owner(path);
        close(lock.fd);
        if (pid == 0)
            return tt_fail(TT_ERR_STATE, "%s is in use by another process",
                           folder);
        return tt_fail(TT_ERR_STATE, "%s is in use by process %ld", folder,
                       pid);
    }
    write_owner(&lock);
    lock.path = ".lock";
    *lock_out = lock;
    return TT_OK;
}

bool tt_file_lock_is_dead(const char *folder)
{
    char path[PATH_MAX];
    if (path_of(folder, path) != TT_OK || !tt_file_exists(path))
        return false;
    const long pid = read_owner(path);
    return pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}
