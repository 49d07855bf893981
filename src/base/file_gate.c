// file_gate - counting and failing.
//
// There are two gates, for calls that write and calls that read. Each counts its
// calls. A test sets from which call to which call the gate refuses, and how: with an
// error (a full disk, say), with a short write, or by killing the process on the spot.
// Without a test the range is empty, and a gate costs one atomic increment.

#include "base/file_gate.h"

#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct gate {
    atomic_llong n_calls;
    atomic_llong first_bad, last_bad; // calls that fail
    atomic_int error;
} gate;

static gate writing, reading;
static atomic_int lock_error;
static tt_file_record_fn *_Atomic recorder;
static void *recorder_user;

void tt_file_record(tt_file_record_fn *record, void *user)
{
    recorder_user = user;
    atomic_store(&recorder, record);
}

void tt__file_tell(tt_file_deed deed, int fd)
{
    struct stat info;
    tt_file_record_fn *record = atomic_load(&recorder);
    if (record == NULL)
        return;
    if (fd >= 0 && fstat(fd, &info) == 0)
        deed.inode = (int64_t)info.st_ino;
    record(recorder_user, &deed);
}

void tt_file_fail_lock(int error)
{
    atomic_store(&lock_error, error);
}

int tt__file_lock_error(void)
{
    return atomic_load(&lock_error);
}

static void fail_at(gate *g, int64_t k, int error)
{
    atomic_store(&g->error, error);
    atomic_store(&g->first_bad, k > 0 ? k : LLONG_MAX);
    atomic_store(&g->last_bad, k);
    atomic_store(&g->n_calls, 0);
}

static void fail_from(gate *g, int64_t k, int error)
{
    fail_at(g, k, error);
    if (k > 0)
        atomic_store(&g->last_bad, LLONG_MAX);
}

static int pass(gate *g)
{
    const long long call = atomic_fetch_add(&g->n_calls, 1) + 1;
    if (call < atomic_load(&g->first_bad) || call > atomic_load(&g->last_bad))
        return 0;
    const int error = atomic_load(&g->error);
    if (error == TT_FILE_KILL)
        (void)kill(getpid(), SIGKILL);
    return error;
}

void tt_file_fail_at(int64_t k, int error)
{
    fail_at(&writing, k, error);
}

void tt_file_fail_from(int64_t k, int error)
{
    fail_from(&writing, k, error);
}

int64_t tt_file_count(void)
{
    return atomic_load(&writing.n_calls);
}

void tt_file_fail_read_at(int64_t k, int error)
{
    fail_at(&reading, k, error);
}

void tt_file_fail_read_from(int64_t k, int error)
{
    fail_from(&reading, k, error);
}

int64_t tt_file_count_reads(void)
{
    return atomic_load(&reading.n_calls);
}

int tt__file_gate(void)
{
    return pass(&writing);
}

static bool is_refused(gate *g)
{
    const int error = pass(g);
    if (error <= 0)
        return false;
    errno = error;
    return true;
}

bool tt__file_is_refused(void)
{
    return is_refused(&writing);
}

bool tt__file_is_unread(void)
{
    return is_refused(&reading);
}
