// file_lock - a folder has one owner at a time.
//
// Two processes that train into the same folder would destroy each other's
// checkpoints. So a process takes a lock of the folder first.
//
// The usual way is flock on FOLDER/.lock. The system releases it however the owner
// ends, also after kill -9 or a crash, so a lock is never left over.
//
// Some file systems have no locks (NFS and Lustre without them answer ENOLCK, ENOTSUP,
// ENOSYS, ...). There a file does it that only one process can create (O_EXCL):
// FOLDER/.lock.held. Such a file stays when its owner dies, so one must be able to
// tell a dead owner from a living one:
//
//   on the same host   the process is looked for. Numbers of processes are used again,
//                      so the time at which it started is compared too
//   on another host    the owner writes a number that grows each second. If it does
//                      not change for 10 s, the owner is taken to be dead
//
// The file of a dead owner is removed and the lock is tried again. Two processes may do
// that at the same time, so each reads the file once more before it believes it
// (confirm).

#include "base/alloc.h"
#include "base/file.h"
#include "base/file_gate.h"
#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { BEAT_MS = 1000, SILENCE_MS = 10000, LOOK_MS = 500, MAX_TRIES = 100 };

static tt_status path_of(const char *folder, const char *name,
                         char path[PATH_MAX])
{
    const int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    if (n < 0 || n >= PATH_MAX)
        return tt_fail(TT_ERR_ARG, "%.200s...: the name is too long", folder);
    return TT_OK;
}

// ---- who -----------------------------------------------------------------

typedef struct owner {
    long pid;
    char host[65];
    long long started; // of the process, in ticks since the machine's start
    long long beats;
} owner;

// When a process started; 0: not known, or there is no such process.
static long long start_of(long pid)
{
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    const char *at = n > 0 ? strrchr(text, ')') : NULL; // a name may hold all
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at != NULL ? strtoll(at, NULL, 10) : 0;
}

static owner self(void)
{
    owner o = {.pid = (long)getpid(), .started = start_of((long)getpid())};
    (void)gethostname(o.host, sizeof(o.host) - 1);
    if (o.host[0] == '\0')
        snprintf(o.host, sizeof o.host, "localhost");
    return o;
}

// What the owner wrote: "PID HOST", and in .lock.held more. False: not known.
static bool read_owner(const char *path, owner *out)
{
    tt_str text = {0};
    owner o = {0};
    const bool is_read = tt_file_read(path, 1 << 10, &text) == TT_OK &&
                         sscanf(tt_str_text(&text), "%ld %64s %lld %lld",
                                &o.pid, o.host, &o.started, &o.beats) >= 2;
    tt_str_fini(&text);
    *out = o;
    return is_read;
}

static bool is_here(const owner *o)
{
    const owner me = self();
    return strcmp(o->host, me.host) == 0;
}

// Of this machine: the process is there, and no other that got its number.
static bool is_alive(const owner *o)
{
    if (kill((pid_t)o->pid, 0) != 0 && errno == ESRCH)
        return false;
    const long long started = start_of(o->pid);
    return started == 0 || o->started == 0 || started == o->started;
}

// The program of a process of this machine, as it was called; "": not known.
static void name_of(long pid, char name[64])
{
    char path[64], words[512] = "";
    snprintf(path, sizeof path, "/proc/%ld/cmdline", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, words, sizeof words - 1) : -1;
    if (fd >= 0)
        close(fd);
    words[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(words, '/');
    snprintf(name, 64, "%.63s", slash != NULL ? slash + 1 : words);
    for (char *p = name; *p != '\0'; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

static tt_status in_use(const char *folder, const owner *o)
{
    char name[64];
    if (o == NULL || o->pid == 0)
        return tt_fail(TT_ERR_STATE,
                       "%s is in use by another process: wait until that ends, "
                       "or take another folder",
                       folder);
    if (!is_here(o))
        return tt_fail(TT_ERR_STATE,
                       "%s is in use by process %ld on %s: wait until that "
                       "ends, stop it there (kill %ld), or take another folder",
                       folder, o->pid, o->host, o->pid);
    name_of(o->pid, name);
    return tt_fail(TT_ERR_STATE,
                   "%s is in use by process %ld%s%s%s: wait until that ends, "
                   "stop it (kill %ld), or take another folder",
                   folder, o->pid, name[0] != '\0' ? " (" : "", name,
                   name[0] != '\0' ? ")" : "", o->pid);
}

// For messages only: a full disk is no reason to fail.
static void write_owner(tt_file *lock)
{
    char text[128];
    const owner me = self();
    const int n = snprintf(text, sizeof(text), "%ld %s\n", me.pid, me.host);
    if (tt_file_cut(lock, 0) == TT_OK)
        (void)tt_file_write(lock, text, n);
}

// ---- without locks of the system -----------------------------------------

static void sleep_ms(long ms)
{
    const struct timespec pause = {.tv_sec = ms / 1000,
                                   .tv_nsec = ms % 1000 * 1000000L};
    (void)nanosleep(&pause, NULL);
}

static bool write_beat(const tt_lock *lock, long long beats)
{
    char text[160];
    const owner me = self();
    const int n = snprintf(text, sizeof text, "%ld %s %lld %016lld\n", me.pid,
                           me.host, me.started, beats);
    return pwrite(lock->held_fd, text, (size_t)n, 0) == n;
}

static void *beat(void *user)
{
    tt_lock *lock = user;
    pthread_mutex_lock(&lock->mutex);
    for (long long beats = 1; !lock->is_over; beats++) {
        struct timespec until;
        (void)write_beat(lock, beats);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += BEAT_MS / 1000;
        (void)pthread_cond_timedwait(&lock->over, &lock->mutex, &until);
    }
    pthread_mutex_unlock(&lock->mutex);
    return NULL;
}

static tt_status start_beating(tt_lock *lock)
{
    (void)pthread_mutex_init(&lock->mutex, NULL);
    (void)pthread_cond_init(&lock->over, NULL);
    TT_TRY(tt_thread_start(&lock->thread, beat, lock, "a lock's heartbeat"));
    lock->beats = true;
    return TT_OK;
}

// Whether the one that has it gives no sign of life any more.
static bool is_dead(const char *path, const owner *o)
{
    owner now = *o;
    if (is_here(o))
        return !is_alive(o);
    for (int ms = 0; ms < SILENCE_MS; ms += LOOK_MS) {
        sleep_ms(LOOK_MS);
        if (!read_owner(path, &now) || now.beats != o->beats ||
            now.pid != o->pid || strcmp(now.host, o->host) != 0)
            return false;
    }
    return true;
}

// Makes the file that only one can make; *is_made_out: it is ours.
static tt_status try_hold(const char *folder, tt_lock *lock, bool *is_made_out)
{
    owner o = {0};
    lock->held_fd = open(
        lock->held, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    *is_made_out = lock->held_fd >= 0;
    if (*is_made_out) {
        if (write_beat(lock, 0))
            return TT_OK;
        return tt_fail(TT_ERR_IO, "%s: cannot be written: %s", lock->held,
                       strerror(errno));
    }
    if (errno != EEXIST)
        return tt_fail(TT_ERR_IO, "%s: cannot be created: %s", lock->held,
                       strerror(errno));
    if (!read_owner(lock->held, &o)) { // it is being made, or was left so
        sleep_ms(LOOK_MS);
        if (!tt_file_exists(lock->held))
            return TT_OK;
        if (!read_owner(lock->held, &o))
            return tt_fail(TT_ERR_STATE,
                           "%s says that somebody is at work, but not who; "
                           "remove it if nobody is",
                           lock->held);
    }
    if (!is_dead(lock->held, &o))
        return in_use(folder, &o);
    return tt_file_remove(lock->held);
}

// Two processes that found the same dead owner may both create the file: the second one
// removes what the first one made. After a short pause only one finds itself in it.
static tt_status confirm(const char *folder, tt_lock *lock)
{
    owner o = {0};
    const owner me = self();
    sleep_ms(LOOK_MS / 5);
    if (read_owner(lock->held, &o) && o.pid == me.pid &&
        o.started == me.started && strcmp(o.host, me.host) == 0)
        return TT_OK;
    (void)close(lock->held_fd); // the other's now
    lock->held_fd = -1;
    return in_use(folder, &o);
}

static tt_status hold(const char *folder, tt_lock *lock)
{
    char path[PATH_MAX];
    bool is_made = false;
    TT_TRY(path_of(folder, ".lock.held", path));
    lock->held = tt_alloc((int64_t)strlen(path) + 1);
    if (lock->held == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", folder);
    memcpy(lock->held, path, strlen(path) + 1);
    for (int i = 0; i < MAX_TRIES && !is_made; i++)
        TT_TRY(try_hold(folder, lock, &is_made));
    if (!is_made)
        return in_use(folder, NULL);
    TT_TRY(confirm(folder, lock));
    return start_beating(lock);
}

// ---- both ----------------------------------------------------------------

static int try_flock(int fd)
{
    int error = tt__file_lock_error();
    for (int i = 0; i < MAX_TRIES && error == 0; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return 0;
        if (errno != EINTR)
            error = errno;
    }
    return error;
}

tt_status tt_file_lock(const char *folder, tt_lock *lock)
{
    char path[PATH_MAX];
    owner o = {0};
    *lock = TT_LOCK_FREE;
    TT_TRY(path_of(folder, ".lock", path));
    TT_TRY(tt_file_append(&lock->file, path));
    lock->file.path = ".lock";
    const int error = try_flock(lock->file.fd);
    tt_status status = TT_OK;
    if (error == EWOULDBLOCK)
        status = in_use(folder, read_owner(path, &o) ? &o : NULL);
    else if (error != 0)
        status = hold(folder, lock);
    if (status == TT_OK) {
        write_owner(&lock->file);
        return TT_OK;
    }
    if (lock->held_fd < 0 && lock->held != NULL) { // another's
        tt_free(lock->held);
        lock->held = NULL;
    }
    char message[1024];
    snprintf(message, sizeof message, "%s", tt_error_message());
    tt_file_unlock(lock);
    return tt_fail(status, "%s", message);
}

tt_status tt_file_lock_look(const char *folder)
{
    char path[PATH_MAX];
    owner o = {0};
    TT_TRY(path_of(folder, ".lock.held", path));
    if (tt_file_exists(path) && read_owner(path, &o) && is_here(&o) &&
        is_alive(&o))
        return in_use(folder, &o);
    TT_TRY(path_of(folder, ".lock", path));
    const int fd = tt_file_open_read(path);
    if (fd < 0)
        return TT_OK;
    const int error = try_flock(fd);
    (void)close(fd);
    return error == EWOULDBLOCK
               ? in_use(folder, read_owner(path, &o) ? &o : NULL)
               : TT_OK;
}

void tt_file_unlock(tt_lock *lock)
{
    if (lock->beats) {
        pthread_mutex_lock(&lock->mutex);
        lock->is_over = true;
        pthread_cond_broadcast(&lock->over);
        pthread_mutex_unlock(&lock->mutex);
        (void)pthread_join(lock->thread, NULL);
    }
    if (lock->held_fd >= 0) {
        (void)close(lock->held_fd);
        (void)unlink(lock->held);
    }
    tt_free(lock->held);
    (void)tt_file_close(&lock->file);
    *lock = TT_LOCK_FREE;
}

bool tt_file_lock_is_dead(const char *folder)
{
    char path[PATH_MAX];
    owner o = {0};
    if (path_of(folder, ".lock", path) != TT_OK || !tt_file_exists(path) ||
        !read_owner(path, &o) || !is_here(&o))
        return false;
    return o.pid > 0 && kill((pid_t)o.pid, 0) != 0 && errno == ESRCH;
}
