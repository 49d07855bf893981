// gzip - compressed files, whole.

#ifndef TT_DATA_GZIP_H
#define TT_DATA_GZIP_H

#include "base/status.h"

#include <stdint.h>

enum { TT_GZIP_EXTRA = 63 << 20 };

// Unpacks a .gz file (all of its members) into memory for tt_free. What would
// become larger than the file and TT_GZIP_EXTRA is refused.
tt_status tt_gzip_unpack(const uint8_t *from, int64_t n, uint8_t **bytes_out,
                         int64_t *n_out);

#endif
