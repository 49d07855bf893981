// tar - the members of an archive, in their order: ustar, pax (path, size) and GNU
// long names. One thread at a time.

#ifndef TT_DATA_SOURCE_TAR_H
#define TT_DATA_SOURCE_TAR_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_tar tt_tar;

typedef struct tt_tar_member { // a regular file
    const char *name;          // until the next call
    int64_t offset, bytes;     // of its contents, all of which are there
} tt_tar_member;

tt_status tt_tar_open(const char *path, tt_tar **tar_out);
// The same of bytes in memory, which must live as long; `path` is for messages.
tt_status tt_tar_open_bytes(const char *path, const void *bytes, int64_t n,
                            tt_tar **tar_out);
void tt_tar_close(tt_tar *tar); // NULL is fine

// The next file; *has_one_out is false at the end. Folders, links and the like are
// passed over. A damaged header is an error that names its byte.
tt_status tt_tar_next(tt_tar *tar, tt_tar_member *member_out,
                      bool *has_one_out);

// The first `n` bytes of a member, which has as many.
tt_status tt_tar_read(tt_tar *tar, const tt_tar_member *member, int64_t n,
                      void *to);

#endif
