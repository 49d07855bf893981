// safetensors - Hugging Face's file of named tensors, read and written.
//
//   8 bytes   length N of the header, little endian
//   N bytes   JSON: {"name": {"dtype": .., "shape": .., "data_offsets": ..}, ..}
//   the rest  the tensors back to back, little endian, C order
//
// Reading maps the file and believes nothing it says: sizes, offsets, overlaps
// and holes are checked, and a header that would need more memory than the file
// size and 64 MiB is refused. A file may be cut short while it is mapped, and a page
// that is gone would then kill whoever looks at `data`. So data are taken with
// tt_safetensor_copy, or handed to write(), which fails.

#ifndef TT_STORE_SAFETENSORS_H
#define TT_STORE_SAFETENSORS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_safetensors tt_safetensors; // an open file

typedef struct tt_safetensor {
    const char *name;
    const char *dtype; // as in the file: "F32", "BF16", ...
    int64_t ndim;
    const int64_t *shape;
    int64_t offset; // from the first tensor's first byte
    int64_t bytes;
    const void *data; // in a file of others not always aligned to its type
    const tt_safetensors *file; // that it was read from
    bool has_sum; // of a checkpoint's: what its elements are to add up to
    uint64_t sum; // (store/checksum.h)
} tt_safetensor;

// Copies bytes [from, from + n) of a tensor's data, from the file if it has one. Fails
// with a sentence when the file was cut short or replaced since it was opened.
tt_status tt_safetensor_copy(const tt_safetensor *tensor, int64_t from,
                             int64_t n, void *out);

typedef struct tt_safetensors_note {
    const char *key, *value;
} tt_safetensors_note;

// What is returned below lives until the file is closed.
tt_status tt_safetensors_open(const char *path, tt_safetensors **file_out);
void tt_safetensors_close(tt_safetensors *file); // NULL is fine

const char *tt_safetensors_path(const tt_safetensors *file);
int64_t tt_safetensors_count(const tt_safetensors *file);

// Bytes in front of the first tensor's first one.
int64_t tt_safetensors_header_bytes(const tt_safetensors *file);

// The i-th in the order of the data.
const tt_safetensor *tt_safetensors_at(const tt_safetensors *file, int64_t i);

const tt_safetensor *tt_safetensors_find(const tt_safetensors *file,
                                         const char *name); // or NULL

// The file's "__metadata__": all of it, or the value of one key (or NULL).
const tt_safetensors_note *tt_safetensors_notes(const tt_safetensors *file,
                                                int64_t *n);
const char *tt_safetensors_note_find(const tt_safetensors *file,
                                     const char *key);

// The order in which the writer puts them: wide types first, then by name.
int tt_safetensors_order(const void *a, const void *b);

// Writes a file under a temporary name beside `path`, then renames it, so that
// `path` is the old file or the whole new one, even after a crash. Of each tensor
// name, dtype, shape and data are read; bytes and offset follow from them.
tt_status tt_safetensors_write(const char *path, const tt_safetensor *tensors,
                               int64_t n, const tt_safetensors_note *notes,
                               int64_t n_notes);

// Bits of one element, or 0 when the format has no such dtype.
int64_t tt_safetensors_bits(const char *dtype);

#endif
