// map - a file as memory: read where it lies, however large it is.

#ifndef TT_BASE_MAP_H
#define TT_BASE_MAP_H

#include "base/status.h"

#include <stdint.h>

typedef struct tt_map {
    const char *data; // never NULL once open
    int64_t bytes;
} tt_map; // zero-initialise

// Opens a regular file; an empty one is fine. The message names the path.
tt_status tt_map_open(const char *path, tt_map *map_out);
void tt_map_close(tt_map *map); // closed already: fine

#endif
