// fuzz_yaml - configuration files.

#include "base/settings/yaml.h"
#include "fuzz/fuzz.h"

FUZZ(yaml)
{
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    if (arena != NULL)
        (void)tt_yaml_parse((const char *)data, (int64_t)n, "fuzz", arena,
                            &settings);
    tt_arena_destroy(arena);
}
