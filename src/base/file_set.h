// file_set - files that belong together: all of them get their names, or none does.
//
// Each is written under a temporary name first. Only when all are on the disk are they
// renamed, so a full disk leaves none of them. When a rename fails, those that have
// their names already are removed again; a file that was there before is never
// removed.

#ifndef TT_BASE_FILE_SET_H
#define TT_BASE_FILE_SET_H

#include "base/file.h"

typedef struct tt_file_set {
    struct tt_file_set_one *v;
    int64_t n;
} tt_file_set;

// Takes over a file that is whole and flushed under a temporary name; placing the set
// names it `path`. Copies both names. The temporary stays the caller's on failure.
tt_status tt_file_set_add(tt_file_set *set, const char *temporary,
                          const char *path);
// The same of bytes that are in memory.
tt_status tt_file_set_write(tt_file_set *set, const char *path,
                            const void *bytes, int64_t n);
// Names all, in the order in which they were added.
tt_status tt_file_set_place(tt_file_set *set);
// Removes what has not been placed.
void tt_file_set_fini(tt_file_set *set);

#endif
