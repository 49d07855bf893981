// gzip - compressed files, whole.

#ifndef TT_DATA_SOURCE_GZIP_H
#define TT_DATA_SOURCE_GZIP_H

#include "base/status.h"

#include <stdint.h>

enum { TT_GZIP_EXTRA = 63 << 20, TT_GZIP_RATIO = 16 };

// Unpacks a .gz file (all of its members) into memory for tt_free. What would become
// larger than the file and TT_GZIP_EXTRA, and than TT_GZIP_RATIO times the file, is
// refused: honest text is packed to about a third.
tt_status tt_gzip_unpack(const uint8_t *from, int64_t n, uint8_t **bytes_out,
                         int64_t *n_out);

// Unpacks deflated bytes without a header into `to`, which has room for `bytes`: just
// as many must come out, and with this CRC.
tt_status tt_inflate(const uint8_t *from, int64_t n, uint32_t crc, uint8_t *to,
                     int64_t bytes);

// The most that `n` packed bytes can become.
int64_t tt_inflate_most(int64_t n);

#endif
