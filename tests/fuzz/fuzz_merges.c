// fuzz_merges - merges.txt, and after its first line of "--" a text to encode.

#include "data/tokenizer/tokenizer_def.h"
#include "fuzz/fuzz.h"

#include <string.h>

// All bytes, and what a, b and a blank can become.
static void put_vocab(tt_str *out)
{
    static const char *const more[] = {"ab",  "ba",   "aa",  "bb",   " a",
                                       "aba", "abab", " ab", "aaaa", "<|end|>"};
    tt_str_add(out, "{");
    for (int i = 0; i < 256 + 10; i++) {
        tt_str text = {0};
        const char byte = (char)i;
        if (i < 256)
            tt__byte_text(&byte, 1, &text);
        else
            tt__byte_text(more[i - 256], (int64_t)strlen(more[i - 256]), &text);
        const char *escape = i == '"' || i == '\\' ? "\\" : "";
        tt_str_addf(out, "%s\"%s%s\":%d", i > 0 ? "," : "", escape,
                    tt_str_text(&text), i);
        tt_str_fini(&text);
    }
    tt_str_add(out, "}");
}

FUZZ(merges)
{
    tt_arena *arena = tt_arena_create();
    const tt_json_value *vocab = NULL;
    tt_tokenizer *t = NULL;
    tt_str json = {0}, back = {0};
    tt_ids ids = {0};
    put_vocab(&json);
    const char *lines = (const char *)data;
    const char *cut = n > 0 ? memmem(data, n, "--", 2) : NULL;
    const int64_t k = cut != NULL ? cut - lines : (int64_t)n;
    if (arena != NULL &&
        tt_json_read(json.text, json.n, "vocab", arena, &vocab) == TT_OK &&
        tt__tokenizer_gpt2(vocab, lines, k, &t) == TT_OK &&
        tt_tokenizer_encode(t, lines + k, (int64_t)n - k, true, &ids) == TT_OK)
        (void)tt_tokenizer_decode(t, ids.v, ids.n, &back);
    tt_ids_fini(&ids);
    tt_str_fini(&back);
    tt_str_fini(&json);
    tt_tokenizer_close(t);
    tt_arena_destroy(arena);
}
