// torch_parts - what the files of torch_file share. Internal.

#ifndef TT_STORE_TORCH_PARTS_H
#define TT_STORE_TORCH_PARTS_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

// ---- torch_zip.c ---------------------------------------------------------

typedef struct tt__zip_entry {
    const char *name; // terminated, in the arena
    const char *data; // as it lies in the archive, not compressed
    int64_t bytes;
} tt__zip_entry;

typedef struct tt__torch_zip {
    int64_t n;
    tt__zip_entry *entry; // sorted by name
} tt__torch_zip;

// `name` is what errors call the archive.
tt_status tt__torch_zip_read(const char *bytes, int64_t n, const char *name,
                             tt_arena *arena, tt__torch_zip *out);
const tt__zip_entry *tt__torch_zip_find(const tt__torch_zip *zip,
                                        const char *name);

// ---- torch_pickle.c ------------------------------------------------------

typedef enum tt__pickle_type {
    TT__PICKLE_ODD, // something that is not understood, and not needed
    TT__PICKLE_NONE,
    TT__PICKLE_INT,
    TT__PICKLE_TEXT,
    TT__PICKLE_TUPLE,
    TT__PICKLE_LIST,
    TT__PICKLE_DICT,    // keys and values in turn
    TT__PICKLE_GLOBAL,  // text: "module name"
    TT__PICKLE_STORAGE, // item 0: its type, a global; text: its key
    TT__PICKLE_TENSOR,  // items: storage, offset, size, stride
    TT__PICKLE_MARK,
} tt__pickle_type;

typedef struct tt__pickle tt__pickle;
struct tt__pickle {
    tt__pickle_type type;
    int64_t number; // of an int; of a storage: elements
    const char *text;
    int64_t n, capacity; // items
    tt__pickle **item;
};

// The object that the pickle describes; nothing is called.
tt_status tt__pickle_read(const char *bytes, int64_t n, const char *name,
                          tt_arena *arena, tt__pickle **out);

#endif
