// span - byte ranges of a file of tensors that another rank has opened and checked:
// the same file, if all that one knows of it without reading it all is the same.

#ifndef TT_STORE_SPAN_H
#define TT_STORE_SPAN_H

#include "store/hash.h"
#include "store/safetensors.h"

#include <limits.h>

typedef struct tt_span_file { // plain bytes: ranks send it to each other
    char path[PATH_MAX];      // absolute
    int64_t bytes, header;    // header: bytes in front of the tensors
    int64_t inode, seconds, nanoseconds; // when it was last changed
    char hash[TT_HASH_CHARS];            // of the header
} tt_span_file;

typedef struct tt_span { // an open file
    int fd;
    int64_t bytes_read; // of it
} tt_span;

#define TT_SPAN_CLOSED ((tt_span){.fd = -1})

tt_status tt_span_describe(const tt_safetensors *file, tt_span_file *out);

// Fails with a reason when there is no such file, or another one.
tt_status tt_span_open(tt_span *span, const tt_span_file *file);
// The same for whoever described it, from the file that it has open, whatever has become
// of its name.
tt_status tt_span_take(tt_span *span, const tt_span_file *file,
                       const tt_safetensors *held);
void tt_span_close(tt_span *span); // closed already: fine

// `n` bytes from `offset` on. A file that ends before is damaged (TT_ERR_ARG); TT_ERR_IO:
// it cannot be read.
tt_status tt_span_read(tt_span *span, int64_t offset, int64_t n, void *out);

#endif
