// zip - the members of a zip archive, as NumPy's .npz files are: stored or deflated,
// with 64-bit sizes where they are needed. Nothing is believed: all of a member must
// be inside the file, and it must unpack to just the bytes that were packed. What is
// stored is mapped and not read for its checksum.

#ifndef TT_DATA_SOURCE_ZIP_H
#define TT_DATA_SOURCE_ZIP_H

#include "data/files.h"

typedef struct tt_zip_member {
    const char *name; // in the bytes, not terminated
    int64_t name_n;
    int64_t offset, packed, bytes; // of its contents
    uint32_t crc;
    bool is_deflated;
} tt_zip_member;

typedef struct tt_zip { // zero-initialise
    tt_blob blob;
    int64_t n;    // members
    int64_t at;   // of the directory
    int64_t next; // entry of it that tt_zip_next reads
    int64_t done; // entries that were read
} tt_zip;

tt_status tt_zip_open(const char *path, tt_zip *zip_out);
void tt_zip_close(tt_zip *zip);

// The next member; *has_one_out is false at the end. Messages do not name the file.
tt_status tt_zip_next(tt_zip *zip, tt_zip_member *member_out,
                      bool *has_one_out);

// The contents of a member as a blob of its own, mapped where it is stored. The
// archive's own blob goes over to it, so the archive is closed.
tt_status tt_zip_take(tt_zip *zip, const tt_zip_member *member,
                      tt_blob *blob_out);

#endif
