// fuzz_checkpoint - state.json of a checkpoint. Behind the given bytes stands the
// hash that they should have, so that more than the hash is looked at.

#include "base/str.h"
#include "fuzz/fuzz.h"
#include "store/checkpoint_folder.h"

static void parse(const char *text, int64_t n)
{
    tt_arena *arena = tt_arena_create();
    tt__checkpoint_state state = {0};
    tt_str again = {0};
    if (arena != NULL && tt__checkpoint_parse(text, n, arena, &state) == TT_OK)
        tt__checkpoint_print(&state, &again); // everything is there
    tt_str_fini(&again);
    tt_arena_destroy(arena);
}

FUZZ(checkpoint)
{
    char hash[TT_HASH_CHARS];
    tt_str text = {0};
    tt_str_add_bytes(&text, (const char *)data, (int64_t)n);
    parse(tt_str_text(&text), text.n);
    tt_hash_text(tt_str_text(&text), text.n, hash);
    tt_str_addf(&text, ",\n \"xxh3\": \"%s\"}\n", hash);
    parse(tt_str_text(&text), text.n);
    tt_str_fini(&text);
}
