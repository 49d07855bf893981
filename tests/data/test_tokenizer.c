// test_tokenizer - bytes, characters and GPT-2's BPE: ids, and text back.

#include "base/alloc.h"
#include "base/json_read.h"
#include "base/map.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_stream.h"
#include "test.h"

#include <string.h>
#include <unistd.h>

#define GPT2 "../shared/data/gpt2-bpe"

static tt_tokenizer *open_spec(const char *spec, const char *text)
{
    tt_tokenizer *t = NULL;
    const int64_t n = text != NULL ? (int64_t)strlen(text) : 0;
    CHECK_MSG(tt_tokenizer_open(spec, text, n, &t) == TT_OK, "%s",
              tt_error_message());
    return t;
}

static tt_tokenizer *open_gpt2(void)
{
    if (access(GPT2 "/encoder.json", R_OK) != 0)
        SKIP("there is no " GPT2);
    return open_spec(GPT2, NULL);
}

// Encodes, checks that decoding gives the text back, returns the ids.
static tt_ids round_trip(const tt_tokenizer *t, const char *text, int64_t n)
{
    tt_ids ids = {0};
    tt_str back = {0};
    CHECK_MSG(tt_tokenizer_encode(t, text, n, false, &ids) == TT_OK, "%s",
              tt_error_message());
    CHECK(tt_tokenizer_decode(t, ids.v, ids.n, &back) == TT_OK);
    CHECK(back.n == n && (n == 0 || memcmp(back.text, text, (size_t)n) == 0));
    tt_str_fini(&back);
    return ids;
}

static void gives(const tt_tokenizer *t, const char *text, bool with_special,
                  const int32_t *want, int64_t n)
{
    tt_ids ids = {0};
    CHECK(tt_tokenizer_encode(t, text, (int64_t)strlen(text), with_special,
                              &ids) == TT_OK);
    CHECK_MSG(ids.n == n, "%s: %lld ids", text, (long long)ids.n);
    for (int64_t i = 0; i < n; i++)
        CHECK_MSG(ids.v[i] == want[i], "%s: id %lld is %d", text, (long long)i,
                  ids.v[i]);
    tt_ids_fini(&ids);
}

#define GIVES(t, text, with, ...)                                              \
    do {                                                                       \
        const int32_t want[] = {__VA_ARGS__};                                  \
        gives(t, text, with, want, sizeof(want) / sizeof(want[0]));            \
    } while (0)

TEST(tokenizer_bytes_are_bytes)
{
    tt_tokenizer *t = open_spec("bytes", NULL);
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    tt_ids ids = round_trip(t, all, 256);
    CHECK(ids.n == 256 && ids.v[0] == 0 && ids.v[255] == 255);
    CHECK(tt_tokenizer_vocab(t) == 256 && tt_tokenizer_end(t) == -1);
    CHECK(strcmp(tt_tokenizer_kind(t), "bytes") == 0);
    tt_ids_fini(&ids);
    ids = round_trip(t, "", 0);
    CHECK(ids.n == 0);
    tt_ids_fini(&ids);
    tt_tokenizer_close(t);
    CHECK(tt_alloc_live() == 0);
}

TEST(tokenizer_chars_are_sorted_characters)
{
    static const char text[] = "hello w\xc3\xb6rld \xf0\x9f\x99\x82!\n";
    tt_tokenizer *t = open_spec("chars", text);
    CHECK(tt_tokenizer_vocab(t) == 12);
    tt_ids ids = round_trip(t, text, sizeof text - 1);
    CHECK(ids.n == 15);
    CHECK(ids.v[ids.n - 1] == 0 && ids.v[7] == 10 && ids.v[12] == 11);
    tt_ids_fini(&ids);
    CHECK(tt_tokenizer_encode(t, "hel\nx", 5, false, &ids) == TT_ERR_ARG);
    CHECK(strcmp(tt_error_message(),
                 "character \"x\" (U+0078) at byte 4 (line 2) of the text is "
                 "not one of those the tokenizer has") == 0);
    CHECK(tt_tokenizer_encode(t, "he\xff", 3, false, &ids) == TT_ERR_ARG);
    CHECK(ids.n == 0);
    tt_ids_fini(&ids);
    tt_tokenizer_close(t);
    t = NULL;
    CHECK(tt_tokenizer_open("chars", "a\nb\xc3", 4, &t) == TT_ERR_ARG);
    CHECK(strncmp(tt_error_message(),
                  "byte 3 (line 2) of the text, 0xc3, is not UTF-8", 47) == 0);
    CHECK(tt_tokenizer_open("chars", NULL, 0, &t) == TT_ERR_ARG);
    CHECK(t == NULL && tt_alloc_live() == 0);
}

TEST(tokenizer_decode_refuses_ids_that_are_not_there)
{
    tt_tokenizer *t = open_spec("bytes", NULL);
    tt_str out = {0};
    const int32_t large[] = {1, 256}, negative[] = {-1};
    CHECK(tt_tokenizer_decode(t, large, 2, &out) == TT_ERR_ARG);
    CHECK(strcmp(tt_error_message(),
                 "token 1 is 256, which the tokenizer does not have: its ids "
                 "are below 256") == 0);
    CHECK(tt_tokenizer_decode(t, negative, 1, &out) == TT_ERR_ARG);
    CHECK(out.n == 0);
    tt_str_fini(&out);
    tt_tokenizer_close(t);
}

TEST(tokenizer_gpt2_gives_the_known_ids)
{
    tt_tokenizer *t = open_gpt2();
    tt_map map = {0};
    tt_arena *arena = tt_arena_create();
    const tt_json_value *root = NULL;
    int n = 0;
    CHECK(tt_map_open(GPT2 "/test-vectors.json", &map) == TT_OK);
    CHECK(tt_json_read(map.data, map.bytes, "v", arena, &root) == TT_OK);
    const tt_json_value *v = tt_json_get(root, "vectors")->first;
    for (; v != NULL; v = v->next, n++) {
        const tt_json_value *text = tt_json_get(v, "text");
        const tt_json_value *want = tt_json_get(v, "ids");
        tt_ids ids = round_trip(t, text->text, text->n);
        CHECK_MSG(ids.n == want->n, "%s", text->text);
        int64_t i = 0;
        for (const tt_json_value *id = want->first; id; id = id->next)
            CHECK_MSG(ids.v[i++] == tt_json_int(id, -1), "%s", text->text);
        tt_ids_fini(&ids);
    }
    CHECK(n == 15 && tt_tokenizer_vocab(t) == 50257);
    CHECK(tt_tokenizer_end(t) == 50256);
    GIVES(t, "hello <|endoftext|>", true, 31373, 220, 50256);
    GIVES(t, "<|endoftext|><|endoftext|>a", true, 50256, 50256, 64);
    tt_map_close(&map);
    tt_arena_destroy(arena);
    tt_tokenizer_close(t);
    CHECK(tt_alloc_live() == 0);
}

static int64_t count_file(const tt_tokenizer *t, const char *path, int64_t from,
                          int64_t to)
{
    tt_map map = {0};
    if (access(path, R_OK) != 0)
        SKIP("there is no ../shared/data");
    CHECK(tt_map_open(path, &map) == TT_OK);
    if (to < 0)
        to = map.bytes;
    tt_ids ids = round_trip(t, map.data + from, to - from);
    const int64_t n = ids.n;
    tt_ids_fini(&ids);
    tt_map_close(&map);
    return n;
}

TEST(tokenizer_gpt2_counts_real_text)
{
    static const char shakespeare[] =
        "../shared/data/tinyshakespeare/input.txt";
    tt_tokenizer *t = open_gpt2();
    const int64_t cut = 1115394 * 9 / 10;
    CHECK(count_file(t, shakespeare, 0, cut) == 301966);
    CHECK(count_file(t, shakespeare, cut, -1) == 36059);
    CHECK(count_file(t, "../shared/data/wikitext-2/valid.txt", 0, -1) ==
          258659);
    CHECK(count_file(t, "../shared/data/text/kjv-bible.txt", 0, -1) == 1169600);
    tt_tokenizer_close(t);
}

TEST(tokenizer_gpt2_takes_any_bytes)
{
    tt_tokenizer *t = open_gpt2();
    char text[4096];
    uint32_t state = 1;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < (int)sizeof text; i++) {
            state = state * 1664525 + 1013904223;
            const uint32_t r = state >> 16;
            text[i] = (r & 0x300) != 0 ? "ab \n'1\xc3\xa9"[r & 7] : (char)r;
        }
        tt_ids ids = round_trip(t, text, sizeof text);
        CHECK(ids.n > 0);
        tt_ids_fini(&ids);
    }
    tt_tokenizer_close(t);
}

// A text in which every cut would change what stands beside it.
static void put_text(tt_str *s, int64_t n)
{
    static const char *const parts[] = {"it's ",
                                        "\n\n",
                                        "   ",
                                        " \t\n x",
                                        "12345",
                                        "\xc3\xa9t\xc3\xa9 ",
                                        "don't we'll",
                                        "!?...",
                                        "\xff",
                                        "<|endoftext|>",
                                        "\xf0\x9f\x99\x82"};
    uint32_t state = 7;
    while (s->n < n) {
        state = state * 1664525 + 1013904223;
        tt_str_add(s, parts[(state >> 16) % 11]);
    }
}

TEST(tokenizer_streams_give_the_same_ids)
{
    tt_tokenizer *t = open_gpt2();
    tt_str s = {0};
    put_text(&s, 300000);
    for (int special = 0; special < 2; special++) {
        tt_ids whole = {0}, parts = {0};
        tt_encoder *e = NULL;
        bool more = true;
        CHECK(tt_tokenizer_encode(t, s.text, s.n, special, &whole) == TT_OK);
        CHECK(tt_encoder_open(t, s.text, s.n, special, &e) == TT_OK);
        while (more)
            CHECK(tt_encoder_next(e, 777, &parts, &more) == TT_OK);
        CHECK(whole.n == parts.n);
        CHECK(memcmp(whole.v, parts.v, sizeof(int32_t) * (size_t)whole.n) == 0);
        tt_encoder_close(e);
        tt_ids_fini(&whole);
        tt_ids_fini(&parts);
    }
    tt_str_fini(&s);
    tt_tokenizer_close(t);
}

static void threads_agree(const tt_tokenizer *t, const tt_str *s, bool special)
{
    tt_ids whole = {0};
    CHECK(tt_tokenizer_encode(t, s->text, s->n, special, &whole) == TT_OK);
    for (int n = 2; n < 6; n++) {
        tt_ids parts = {0};
        tt_encoder *e = NULL;
        bool more = true;
        CHECK(tt_encoder_open(t, s->text, s->n, special, &e) == TT_OK);
        while (more)
            CHECK(tt_encoder_next_threads(e, 1 << 20, n, &parts, &more) ==
                  TT_OK);
        CHECK(whole.n == parts.n);
        CHECK(memcmp(whole.v, parts.v, sizeof(int32_t) * (size_t)whole.n) == 0);
        tt_encoder_close(e);
        tt_ids_fini(&parts);
    }
    tt_ids_fini(&whole);
}

TEST(tokenizer_threads_give_the_same_ids)
{
    tt_tokenizer *t = open_gpt2();
    tt_tokenizer *bytes = open_spec("bytes", NULL);
    tt_str s = {0};
    put_text(&s, 1500000);
    threads_agree(t, &s, false);
    threads_agree(t, &s, true);
    threads_agree(bytes, &s, false);
    // Text without a place to cut, in which every guess is wrong.
    memset(s.text, '7', (size_t)s.n);
    threads_agree(t, &s, false);
    memset(s.text, '\n', (size_t)s.n);
    threads_agree(t, &s, false);
    tt_str_fini(&s);
    tt_tokenizer_close(t);
    tt_tokenizer_close(bytes);
    CHECK(tt_alloc_live() == 0);
}

TEST(tokenizer_threads_pass_errors_on)
{
    tt_tokenizer *t = open_spec("chars", "ab\n");
    tt_str s = {0};
    tt_ids ids = {0};
    tt_encoder *e = NULL;
    bool more = true;
    while (s.n < 400000)
        tt_str_add(&s, "ab\n");
    s.text[300001] = 'c';
    CHECK(tt_encoder_open(t, s.text, s.n, false, &e) == TT_OK);
    CHECK(tt_encoder_next_threads(e, s.n, 4, &ids, &more) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "at byte 300001 (line 100001)") != NULL);
    tt_encoder_close(e);
    tt_ids_fini(&ids);
    tt_str_fini(&s);
    tt_tokenizer_close(t);
}

TEST(tokenizer_text_without_blanks_is_not_quadratic)
{
    tt_tokenizer *t = open_gpt2();
    tt_str s = {0};
    uint32_t state = 3;
    for (int i = 0; i < 1 << 20; i++) {
        state = state * 1664525 + 1013904223;
        const char c = (char)('a' + (state >> 16) % 26);
        tt_str_add_bytes(&s, &c, 1);
    }
    tt_ids ids = round_trip(t, s.text, s.n);
    CHECK(ids.n > 300000 && ids.n < 1 << 20);
    tt_ids_fini(&ids);
    memset(s.text, ' ', (size_t)s.n);
    ids = round_trip(t, s.text, s.n);
    CHECK(ids.n > 0);
    tt_ids_fini(&ids);
    tt_str_fini(&s);
    tt_tokenizer_close(t);
}

// Long pieces are merged with a heap, short ones without: the same ids.
TEST(tokenizer_heap_and_scan_agree)
{
    tt_tokenizer *t = open_gpt2();
    char text[2 * 64];
    uint32_t state = 5;
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 128; i++) {
            state = state * 1664525 + 1013904223;
            text[i] = "etaoinshr"[(state >> 16) % 9];
        }
        text[60] = 'Q', text[61] = 'Q'; // no merge crosses it
        tt_ids a = round_trip(t, text, 128), b = round_trip(t, text, 61);
        tt_ids c = round_trip(t, text + 61, 67);
        bool is_same = a.n == b.n + c.n;
        for (int64_t i = 0; i < b.n && is_same; i++)
            is_same = a.v[i] == b.v[i];
        CHECK_MSG(is_same, "%.128s", text);
        tt_ids_fini(&a);
        tt_ids_fini(&b);
        tt_ids_fini(&c);
    }
    tt_tokenizer_close(t);
}

TEST(tokenizer_missing_files_are_one_sentence)
{
    tt_tokenizer *t = NULL;
    CHECK(tt_tokenizer_open("no/such", NULL, 0, &t) == TT_ERR_IO);
    CHECK(strncmp(tt_error_message(), "no/such: no such tokenizer: it is ",
                  34) == 0);
    CHECK(tt_tokenizer_open("src", NULL, 0, &t) == TT_ERR_IO);
    CHECK(strncmp(tt_error_message(), "src: there is neither tokenizer.json",
                  36) == 0);
    CHECK(tt_tokenizer_open("Makefile", NULL, 0, &t) == TT_ERR_ARG);
    CHECK(strcmp(tt_error_message(),
                 "Makefile:1:1: '#' where a value should be") == 0);
}
