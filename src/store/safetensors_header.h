// safetensors_header - the JSON in front of the tensors, checked. Internal.

#ifndef TT_STORE_SAFETENSORS_HEADER_H
#define TT_STORE_SAFETENSORS_HEADER_H

#include "base/arena.h"
#include "store/safetensors.h"

#include <stdint.h>

enum {
    TT_SAFETENSORS_PREFIX = 8,
    TT_SAFETENSORS_HEADER_MAX = 100000000,
    TT_SAFETENSORS_EXTRA = 64 << 20, // memory beyond the file's own size
};

typedef struct tt_safetensors_table {
    int64_t n, n_notes;
    tt_safetensor *v; // by offset
    tt_safetensors_note *notes;
} tt_safetensors_table;

// Reads `n` bytes of header in front of `data_bytes` bytes of tensors.
tt_status tt_safetensors_header_read(const char *json, int64_t n,
                                     int64_t data_bytes, tt_arena *arena,
                                     tt_safetensors_table *table);

// Position in the writer's order: wide types first, so that all are aligned.
int tt_safetensors_rank(const char *dtype);

// Bytes of a tensor; fails on an unknown dtype, a negative extent, overflow and
// parts of a byte.
tt_status tt_safetensors_size(const tt_safetensor *tensor, int64_t *bytes);

// The writer's bytes, one piece after the other, to whoever wants them; errors of
// the content name the file `path`.
typedef struct tt_safetensors_content {
    const tt_safetensor *tensors;
    int64_t n;
    const tt_safetensors_note *notes;
    int64_t n_notes;
    // Where data come from that are not there, in the writer's order, each for as
    // long as it is written; NULL: all are there.
    tt_status (*fetch)(void *user, const tt_safetensor *tensor,
                       const void **data_out);
    void *user;
} tt_safetensors_content;

typedef struct tt_safetensors_sink {
    tt_status (*put)(void *user, const void *bytes, int64_t n);
    // What comes next are the bytes of this one; NULL: nobody wants to know.
    void (*begin)(void *user, const tt_safetensor *tensor);
    void *user;
} tt_safetensors_sink;

// Opens a file and keeps its descriptor, so that its bytes can be read when its name is
// gone; -1 for one that was opened without.
tt_status tt_safetensors_hold(const char *path, tt_safetensors **file_out);
int tt_safetensors_fd(const tt_safetensors *file);

// For the reader of checkpoints: the bytes in front of the tensors, and what the
// elements of the i-th are to add up to.
const void *tt_safetensors_header(const tt_safetensors *file);
void tt_safetensors_set_sum(tt_safetensors *file, int64_t i, uint64_t sum);

tt_status tt_safetensors_stream(const char *path,
                                const tt_safetensors_content *content,
                                const tt_safetensors_sink *sink);

#endif
