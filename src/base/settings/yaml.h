// yaml - reads a configuration file into flat settings.
//
//   model:                        model.layers = 6      gpt.yaml:2:3
//     layers: 6             ->    model.kernel = [3, 3] gpt.yaml:3:3
//     kernel: [3, 3]              batch        = 8      gpt.yaml:4:1
//   batch: 8
//
// Keys may be written with dots as well as nested, but each only once. Values
// are scalars or lists of scalars. Anchors, aliases, merges, tags, several
// documents and nesting beyond 16 levels are refused: a configuration needs none
// of them, and each has been the door of an attack.

#ifndef TT_BASE_YAML_H
#define TT_BASE_YAML_H

#include "base/arena.h"
#include "base/settings/settings.h"
#include "base/status.h"

#include <stdint.h>

enum { TT_YAML_BYTES_MAX = 16 << 20, TT_YAML_DEPTH_MAX = 16 };

// Messages and origins name the file by `path` as given.
tt_status tt_yaml_read(const char *path, tt_arena *arena, tt_settings *out);

// The same from `n` bytes of text called `name`.
tt_status tt_yaml_parse(const char *text, int64_t n, const char *name,
                        tt_arena *arena, tt_settings *out);

#endif
