// fuzz_pretrained - config.json and tokenizer.json of Hugging Face folders.

#include "fuzz/fuzz.h"
#include "store/pretrained.h"

FUZZ(pretrained)
{
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    tt_pretrained_ids ends = {0};
    int32_t id = -1;
    if (arena == NULL)
        return;
    const char *text = (const char *)data;
    (void)tt_pretrained_read(text, (int64_t)n, "fuzz", arena, &settings);
    (void)tt_pretrained_ends(text, (int64_t)n, "fuzz", arena, &ends);
    (void)tt_pretrained_begin(text, (int64_t)n, "fuzz", arena, &id);
    tt_arena_destroy(arena);
}
