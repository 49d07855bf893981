// fuzz_tokenizer - tokenizer.json: what opens must encode, decode and print.

#include "data/tokenizer/tokenizer.h"
#include "fuzz/fuzz.h"

static const char text[] =
    "It's 12 o'clock.\n\n  <a> \xc3\xa9\xff\x80<|endoftext|>";

static void use(const tt_tokenizer *t, bool with_special)
{
    tt_ids ids = {0};
    tt_str out = {0};
    if (tt_tokenizer_encode(t, text, sizeof text - 1, with_special, &ids) ==
        TT_OK)
        (void)tt_tokenizer_decode(t, ids.v, ids.n, &out);
    tt_str_clear(&out);
    tt_tokenizer_print(t, &out);
    tt_str_fini(&out);
    tt_ids_fini(&ids);
}

FUZZ(tokenizer)
{
    tt_tokenizer *t = NULL;
    if (tt_tokenizer_open(tt_fuzz_file(data, n, ".json"), NULL, 0, &t) ==
        TT_OK) {
        use(t, false);
        use(t, true);
    }
    tt_tokenizer_close(t);
}
