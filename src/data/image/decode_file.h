// decode_file - what sources of compressed images share: reading the bytes of one,
// and learning the images' size from a few.

#ifndef TT_DATA_IMAGE_DECODE_FILE_H
#define TT_DATA_IMAGE_DECODE_FILE_H

#include "data/source/source.h"

// Compressed bytes; end with tt_free(bytes).
typedef struct tt_encoded {
    uint8_t *bytes;
    int64_t n;
} tt_encoded;

// Reads `n` bytes from `offset` on; n of -1: the whole file. Messages name the
// file.
tt_status tt_encoded_read(const char *path, int64_t offset, int64_t n,
                          tt_encoded *out);

// Image `index` of a source, not decoded. Messages name it.
typedef tt_status tt_encoded_fn(const tt_source *source, int64_t index,
                                tt_encoded *out);

tt_status tt_encoded_image(tt_encoded_fn *read_encoded, const tt_source *source,
                           int64_t index, tt_image *out);

// Sets channels, height and width of the source from a few images: 0 where they
// differ. Any image can be turned into one or three channels, so what the model
// wants is then what the source has; the same goes for its size, as far as this
// can be known here.
tt_status tt_encoded_probe(tt_encoded_fn *read_encoded, tt_source *source,
                           const tt_source_request *request);

#endif
