// files - the files a path stands for, and their bytes without reading them all.

#ifndef TT_DATA_FILES_H
#define TT_DATA_FILES_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// A file's bytes, mapped; those of a .gz file unpacked into memory. Zero-initialise
// and end with tt_blob_close. May be read by any thread.
typedef struct tt_blob {
    const uint8_t *p;
    int64_t n;
    void *map; // and its length
    int64_t map_bytes;
    uint64_t device, inode; // of the mapped file
    char *path;
    void *memory;
} tt_blob;
tt_status tt_blob_open(const char *path, tt_blob *blob_out);
void tt_blob_close(tt_blob *blob);
// Whether a mapped file is still as long as it was: reading what is no longer there
// would kill the process. Before every read of a sample.
tt_status tt_blob_check(const tt_blob *blob);
// Unpacks what begins like a .gz file, whatever its name.
tt_status tt_blob_unpack(tt_blob *blob);

typedef struct tt_paths {
    int64_t n;
    const char **v; // in the arena, sorted bytewise
} tt_paths;

// What `path` names: a file, the files of a folder (not those in folders below it
// and not hidden ones), or those that match a pattern. None is an error. `setting`
// is what errors call it: "data.path".
tt_status tt_paths_find(const char *setting, const char *path, tt_arena *arena,
                        tt_paths *paths_out);

// FOLDER/NAME in the arena; NULL when memory is exhausted.
const char *tt_path_join(tt_arena *arena, const char *folder, const char *name);
const char *tt_path_base(const char *path); // after the last slash
bool tt_path_ends(const char *path, const char *suffix);

#endif
