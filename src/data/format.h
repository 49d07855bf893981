// format - files of other kinds, by their first bytes: so that what is not text is
// not read as text, and not taken for token ids either.

#ifndef TT_DATA_FORMAT_H
#define TT_DATA_FORMAT_H

#include "base/status.h"

#include <stdint.h>

// "Parquet", "zstd", "PDF", ...; NULL: none that is known.
const char *tt_format_name(const uint8_t *bytes, int64_t n);

// Fails when the bytes begin like one of those, with what to do: "FILE: its format is
// Parquet, not WANTED; ..." `wanted` is as "text" or "token ids".
tt_status tt_format_refuse(const char *path, const uint8_t *bytes, int64_t n,
                           const char *wanted);

#endif
