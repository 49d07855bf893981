// file - the only door for writing files, so that tests can make it fail.
//
// Every call that changes the disk is counted; interrupted ones are repeated and
// short writes go on. Messages name the path and the reason. What is written under
// a temporary name (".tmp-NAME-PID-SERIAL", beside the file) is renamed when it is
// whole; a crash leaves the temporary, and tt_file_sweep removes it. A file that is
// appended to may not be a symbolic link: what it names is somebody else's.

#ifndef TT_BASE_FILE_H
#define TT_BASE_FILE_H

#include "base/status.h"
#include "base/str.h"

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct tt_file { // a file being written
    int fd;
    const char *path; // for messages; the caller's, must live as long
} tt_file;

#define TT_FILE_CLOSED ((tt_file){.fd = -1})

tt_status tt_file_create(tt_file *file, const char *path); // must not be there
tt_status tt_file_append(tt_file *file, const char *path); // made if it is not
tt_status tt_file_write(tt_file *file, const void *bytes, int64_t n);
tt_status tt_file_sync(tt_file *file); // to the disk itself
tt_status tt_file_cut(tt_file *file, int64_t bytes);
tt_status tt_file_size(const tt_file *file, int64_t *bytes_out);
tt_status tt_file_close(tt_file *file); // closed already: fine
// Flushes when `status`, that of the writing, is TT_OK, and closes; returns the
// first failure, whose message stays.
tt_status tt_file_finish(tt_file *file, tt_status status);

tt_status tt_file_rename(const char *from, const char *to);
// Two names change places; TT_ERR_UNSUPPORTED where the file system cannot.
tt_status tt_file_exchange(const char *a, const char *b);
// Makes new names in a folder survive a crash of the machine.
tt_status tt_file_sync_folder(const char *folder);
tt_status tt_file_sync_folder_of(const char *path); // the one a file is in
tt_status tt_file_make_folder(const char *folder);  // and those above it
// Whether that would do, as far as permissions say; makes nothing.
tt_status tt_file_check_folder(const char *folder);
// A file, or a folder with all that is in it; not there: fine.
tt_status tt_file_remove(const char *path);

// A whole file in pieces, under a temporary name. tt_file_end finishes and renames
// it, or removes the temporary.
tt_status tt_file_begin(tt_file *file, const char *path,
                        char temporary[PATH_MAX]);
tt_status tt_file_end(tt_file *file, const char *temporary, tt_status status);
// The same in one piece.
tt_status tt_file_replace(const char *path, const void *bytes, int64_t n);

// Writes a temporary name for `path` into `name`.
tt_status tt_file_temporary(const char *path, char name[PATH_MAX]);
// Removes the temporaries in a folder. Only its owner may.
tt_status tt_file_sweep(const char *folder);

typedef struct tt_lock {
    tt_file file;
    // Where the system has no locks: see file_lock.c.
    char *held;
    int held_fd;
    bool beats, is_over;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t over;
} tt_lock;

#define TT_LOCK_FREE ((tt_lock){.file = {.fd = -1}, .held_fd = -1})

// Takes FOLDER/.lock for this process, until it is unlocked or dies. Says who has it
// when another does (TT_ERR_STATE), on file systems without locks too. The lock must
// stay where it is in memory.
tt_status tt_file_lock(const char *folder, tt_lock *lock);
void tt_file_unlock(tt_lock *lock); // TT_LOCK_FREE: fine

// Fails as tt_file_lock when another process has it, and takes nothing.
tt_status tt_file_lock_look(const char *folder);

// Whether a process of this machine had the lock and is gone.
bool tt_file_lock_is_dead(const char *folder);

bool tt_file_is_folder(const char *path);
bool tt_file_exists(const char *path);
// What it is when it is neither a regular file nor a folder: "a socket", "a pipe", "a
// device"; else NULL.
const char *tt_file_oddity(const char *path);

// Appends a regular file's bytes to `out`; refuses more than `max` bytes.
tt_status tt_file_read(const char *path, int64_t max, tt_str *out);
// The same of a file that need not be there: *found_out says whether it is.
tt_status tt_file_read_if(const char *path, int64_t max, tt_str *out,
                          bool *found_out);

// Opens a file for reading: a descriptor, or -1 with errno. A call that was interrupted
// is repeated.
int tt_file_open_read(const char *path);
// Up to `n` bytes from `offset` on (-1: from where it is): how many, or -1 with errno.
int64_t tt_file_read_some(int fd, void *out, int64_t n, int64_t offset);
// Calls `visit` for each name in a folder but "." and ".."; stops at the first that
// fails.
typedef tt_status tt_file_visit_fn(void *user, const char *name);
tt_status tt_file_each(const char *folder, tt_file_visit_fn *visit, void *user);
// Why a call on a file failed, for the end of a sentence.
const char *tt_file_reason(int error);
// Whether an errno says that there is no such file, and not that it cannot be read.
bool tt_file_is_absent(int error);

// Fault injection: the k-th call from now on that writes (k = 1 is the next one)
// fails with that errno, and only that one; with TT_FILE_SHORT a write does one
// byte, with TT_FILE_KILL the process is killed before the call. "from": all later
// ones too, as on a full disk. k = 0 switches it off.
enum { TT_FILE_SHORT = -1, TT_FILE_KILL = -2 };
void tt_file_fail_at(int64_t k, int error);
void tt_file_fail_from(int64_t k, int error);
int64_t tt_file_count(void); // such calls since then

// Who wants to know what was done to the disk, in order, from whichever thread: to
// think of what a power cut could have left of it. NULL: nobody.
typedef enum tt_file_act {
    TT_FILE_OPENED,  // path; made if it was not there
    TT_FILE_WROTE,   // bytes, n; at the end
    TT_FILE_CUT,     // to n bytes
    TT_FILE_SYNCED,  // a file or a folder
    TT_FILE_RENAMED, // path, to
    TT_FILE_EXCHANGED,
    TT_FILE_MADE, // a folder
    TT_FILE_REMOVED,
} tt_file_act;

typedef struct tt_file_deed {
    tt_file_act act;
    int64_t inode; // of a file that was opened, written, cut or synced
    const char *path, *to;
    const void *bytes;
    int64_t n;
} tt_file_deed;

typedef void tt_file_record_fn(void *user, const tt_file_deed *deed);
void tt_file_record(tt_file_record_fn *record, void *user);

// From now on the file system has no locks and says so with this errno; 0: it has.
void tt_file_fail_lock(int error);

// The same for calls that read: opening, reading, listing a folder.
void tt_file_fail_read_at(int64_t k, int error);
void tt_file_fail_read_from(int64_t k, int error);
int64_t tt_file_count_reads(void);

#endif
