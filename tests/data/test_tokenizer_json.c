// test_tokenizer_json - tokenizer.json and GPT-2's pair of files: written and read
// back, the forms that are read, and those that are refused by name.

#include "base/alloc.h"
#include "base/file.h"
#include "data/tokenizer/tokenizer.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/tutti-tokenizer-XXXXXX";

static void enter(void)
{
    CHECK(mkdtemp(folder) != NULL);
    CHECK(chdir(folder) == 0);
}

static void leave(void)
{
    CHECK(chdir("/") == 0);
    CHECK(tt_file_remove(folder) == TT_OK);
    CHECK(tt_alloc_live() == 0);
}

static void put(const char *path, const char *text, int64_t n)
{
    CHECK(tt_file_replace(path, text, n) == TT_OK);
}

static tt_tokenizer *open_json(const char *json)
{
    tt_tokenizer *t = NULL;
    put("t.json", json, (int64_t)strlen(json));
    CHECK_MSG(tt_tokenizer_open("t.json", NULL, 0, &t) == TT_OK, "%s: %s", json,
              tt_error_message());
    return t;
}

static void refuses(const char *json, const char *message)
{
    tt_tokenizer *t = NULL;
    put("t.json", json, (int64_t)strlen(json));
    CHECK_MSG(tt_tokenizer_open("t.json", NULL, 0, &t) != TT_OK, "%s", json);
    CHECK_MSG(strstr(tt_error_message(), message) != NULL, "%s",
              tt_error_message());
    CHECK(strncmp(tt_error_message(), "t.json: ", 8) == 0);
}

static void gives(const tt_tokenizer *t, const char *text, bool with_special,
                  const char *want)
{
    tt_ids ids = {0};
    tt_str got = {0};
    CHECK_MSG(tt_tokenizer_encode(t, text, (int64_t)strlen(text), with_special,
                                  &ids) == TT_OK,
              "%s", tt_error_message());
    for (int64_t i = 0; i < ids.n; i++)
        tt_str_addf(&got, i > 0 ? " %d" : "%d", ids.v[i]);
    CHECK_MSG(strcmp(tt_str_text(&got), want) == 0, "%s: %s", text,
              tt_str_text(&got));
    tt_ids_fini(&ids);
    tt_str_fini(&got);
}

// Both encode the text to the same ids.
static void same(const tt_tokenizer *a, const tt_tokenizer *b, const char *text,
                 int64_t n)
{
    for (int special = 0; special < 2; special++) {
        tt_ids x = {0}, y = {0};
        CHECK(tt_tokenizer_encode(a, text, n, special, &x) == TT_OK);
        CHECK(tt_tokenizer_encode(b, text, n, special, &y) == TT_OK);
        CHECK(x.n == y.n && x.n > 0);
        CHECK(memcmp(x.v, y.v, sizeof(int32_t) * (size_t)x.n) == 0);
        tt_ids_fini(&x);
        tt_ids_fini(&y);
    }
    CHECK(tt_tokenizer_vocab(a) == tt_tokenizer_vocab(b));
    CHECK(tt_tokenizer_end(a) == tt_tokenizer_end(b));
    CHECK(strcmp(tt_tokenizer_kind(a), tt_tokenizer_kind(b)) == 0);
}

static void reads_back(const tt_tokenizer *t, const char *text, int64_t n)
{
    tt_str json = {0}, again = {0};
    tt_tokenizer *back = NULL;
    tt_tokenizer_print(t, &json);
    put("t.json", json.text, json.n);
    CHECK_MSG(tt_tokenizer_open("t.json", NULL, 0, &back) == TT_OK, "%s",
              tt_error_message());
    same(t, back, text, n);
    tt_tokenizer_print(back, &again);
    CHECK(strcmp(json.text, again.text) == 0);
    tt_tokenizer_close(back);
    tt_str_fini(&json);
    tt_str_fini(&again);
}

static const char text[] =
    "It's a \"test\" \\ of\ttabs, 123 na\xc3\xafve \xf0\x9f\x99\x82"
    "<|endoftext|> and\n\n  more of it";

TEST(tokenizer_json_reads_back)
{
    enter();
    const char *const special[] = {"<|endoftext|>", "<pad \"x\">"};
    const char *const patterns[] = {NULL, "\\s?\\p{L}+|[^\\p{L}]", "."};
    tt_tokenizer *t = NULL;
    CHECK(tt_tokenizer_open("bytes", NULL, 0, &t) == TT_OK);
    reads_back(t, text, sizeof text - 1);
    tt_tokenizer_close(t);
    CHECK(tt_tokenizer_open("chars", text, sizeof text, &t) == TT_OK);
    reads_back(t, text, sizeof text); // with the zero byte at its end
    tt_tokenizer_close(t);
    for (int i = 0; i < 3; i++) {
        const tt_bpe_options options = {.vocab = 290,
                                        .pattern = patterns[i],
                                        .special = special,
                                        .n_special = 2};
        CHECK(tt_bpe_train(&(tt_text){text, sizeof text}, 1, &options, &t) ==
              TT_OK);
        CHECK(tt_tokenizer_end(t) == 0);
        reads_back(t, text, sizeof text);
        tt_tokenizer_close(t);
    }
    leave();
}

static bool is_same(const tt_str *a, const tt_str *b)
{
    return a->n == b->n && memcmp(a->text, b->text, (size_t)a->n) == 0;
}

// One failed allocation fails the text, or the text is whole.
TEST(tokenizer_print_is_whole_or_fails)
{
    const tt_bpe_options options = {.vocab = 290};
    tt_tokenizer *t = NULL;
    tt_str whole[3] = {0};
    CHECK_OK(tt_bpe_train(&(tt_text){text, sizeof text}, 1, &options, &t));
    tt_tokenizer_print(t, &whole[0]);
    CHECK_OK(tt_str_status(&whole[0]));
    CHECK_OK(tt_tokenizer_print_gpt2(t, &whole[1], &whole[2]));
    bool is_done = false;
    for (int64_t k = 1; !is_done; k++) {
        tt_str s[3] = {0};
        tt_alloc_fail_at(k);
        tt_tokenizer_print(t, &s[0]);
        is_done = tt_alloc_count() < k;
        tt_alloc_fail_at(k);
        const tt_status pair = tt_tokenizer_print_gpt2(t, &s[1], &s[2]);
        is_done = is_done && tt_alloc_count() < k;
        tt_alloc_fail_at(0);
        CHECK_MSG(tt_str_status(&s[0]) != TT_OK || is_same(&s[0], &whole[0]),
                  "allocation %lld", (long long)k);
        CHECK_MSG(pair != TT_OK ||
                      (is_same(&s[1], &whole[1]) && is_same(&s[2], &whole[2])),
                  "allocation %lld", (long long)k);
        for (int i = 0; i < 3; i++)
            tt_str_fini(&s[i]);
    }
    for (int i = 0; i < 3; i++)
        tt_str_fini(&whole[i]);
    tt_tokenizer_close(t);
    CHECK(tt_alloc_live() == 0);
}

TEST(tokenizer_says_how_to_convert_other_files)
{
    enter();
    tt_tokenizer *t = NULL;
    put("o200k.tiktoken", "IQ== 0\n", 7);
    CHECK(tt_tokenizer_open("o200k.tiktoken", NULL, 0, &t) ==
          TT_ERR_UNSUPPORTED);
    CHECK(strstr(tt_error_message(), "TikTokenConverter") != NULL);
    put("tokenizer.model", "\n\0", 2);
    static const char *const specs[] = {"tokenizer.model", "."};
    for (int i = 0; i < 2; i++) {
        CHECK(tt_tokenizer_open(specs[i], NULL, 0, &t) == TT_ERR_UNSUPPORTED);
        CHECK(strstr(tt_error_message(), "tokenizer.model: sentencepiece") !=
              NULL);
        CHECK(strstr(tt_error_message(), "save_pretrained") != NULL);
    }
    leave();
}

TEST(tokenizer_gpt2_files_read_back)
{
    enter();
    const char *const special[] = {"<|endoftext|>"};
    const tt_bpe_options options = {
        .vocab = 290, .special = special, .n_special = 1};
    tt_tokenizer *t = NULL, *back = NULL;
    tt_str vocab = {0}, merges = {0};
    CHECK(tt_bpe_train(&(tt_text){text, sizeof text}, 1, &options, &t) ==
          TT_OK);
    CHECK(tt_tokenizer_print_gpt2(t, &vocab, &merges) == TT_OK);
    put("encoder.json", vocab.text, vocab.n);
    CHECK(tt_tokenizer_open("encoder.json", NULL, 0, &back) == TT_ERR_IO);
    put("vocab.bpe", merges.text, merges.n);
    static const char *const specs[] = {".", "encoder.json", "./vocab.bpe"};
    for (int i = 0; i < 3; i++) {
        CHECK(tt_tokenizer_open(specs[i], NULL, 0, &back) == TT_OK);
        same(t, back, text, sizeof text);
        tt_tokenizer_close(back);
        back = NULL;
    }
    put("vocab.bpe", "a b c\n", 6);
    CHECK(tt_tokenizer_open(".", NULL, 0, &back) == TT_ERR_ARG);
    CHECK(strcmp(tt_error_message(),
                 "./encoder.json, ./vocab.bpe: merges, line 1: not two tokens "
                 "with a blank between them") == 0);
    put("vocab.bpe", "#version: 0.2\n\nzz z\n", 20);
    CHECK(tt_tokenizer_open(".", NULL, 0, &back) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(),
                 "merges, line 3: \"zz\" is not in the vocabulary") != NULL);
    tt_str_fini(&vocab);
    tt_str_fini(&merges);
    tt_tokenizer_close(t);
    leave();
}

#define VOCAB                                                                  \
    "\"vocab\":{\"a\":0,\"b\":1,\"\xc4\xa0\":2,\"ab\":3,\"\xc4\xa0"            \
    "a\":4,"                                                                   \
    "\"1\":5,\"2\":6,\"12\":7,\"abab\":8}"
#define LEVEL(space, regex)                                                    \
    "{\"type\":\"ByteLevel\",\"add_prefix_space\":" space                      \
    ",\"use_regex\":" regex "}"
#define FILE_OF(pre, added, more, merges)                                      \
    "{\"added_tokens\":[" added "],\"normalizer\":null,\"pre_tokenizer\":" pre \
    ",\"model\":{\"type\":\"BPE\"," more VOCAB ",\"merges\":[" merges "]}}"

TEST(tokenizer_json_reads_its_variants)
{
    enter();
    tt_tokenizer *t = open_json(
        FILE_OF(LEVEL("false", "true"), "", "", "\"a b\",\"\xc4\xa0 a\""));
    gives(t, "ab a 12", false, "3 4 2 5 6");
    tt_tokenizer_close(t);
    t = open_json(FILE_OF(LEVEL("false", "true"), "", "",
                          "[\"a\",\"b\"],[\"\xc4\xa0\",\"a\"]"));
    gives(t, "ab a 12", false, "3 4 2 5 6");
    tt_tokenizer_close(t);
    t = open_json(
        FILE_OF(LEVEL("true", "true"), "", "", "\"\xc4\xa0 a\",\"a b\""));
    gives(t, "ab", false, "4 1");
    gives(t, " ab", false, "4 1");
    gives(t, "", false, "");
    tt_tokenizer_close(t);
    t = open_json(FILE_OF(LEVEL("false", "true"), "", "\"ignore_merges\":true,",
                          "\"a b\""));
    gives(t, "abab ab", false, "8 2 3");
    tt_tokenizer_close(t);
    t = open_json(FILE_OF("{\"type\":\"Sequence\",\"pretokenizers\":["
                          "{\"type\":\"Digits\",\"individual_digits\":true},"
                          "{\"type\":\"Split\",\"pattern\":{\"String\":\"b\"},"
                          "\"behavior\":\"Isolated\",\"invert\":false}," LEVEL(
                              "false", "false") "]}",
                          "", "", "\"1 2\",\"a b\""));
    gives(t, "12ab", false, "5 6 0 1");
    tt_tokenizer_close(t);
    leave();
}

// Marks belong to words: no border is between a letter and its accent.
TEST(tokenizer_json_knows_borders_of_words)
{
    enter();
    tt_tokenizer *t = open_json(
        "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":"
        "\"\\\\w\\\\b\"},\"behavior\":\"Removed\",\"invert\":false},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"e\":0,\"\xcc\x81\":1,"
        "\"b\":2,\" \":3},\"merges\":[]}}");
    gives(t, "e\xcc\x81 b", false, "0 3");
    gives(t,
          "e\xcc\x81"
          "b",
          false, "0 1");
    tt_tokenizer_close(t);
    leave();
}

// Of vocabulary a, b, ab, blank, one half and b after it; the ids are those of the
// package `tokenizers`.
static void splits(const char *pattern, const char *behavior, const char *words,
                   const char *want)
{
    char json[1024];
    snprintf(json, sizeof json,
             "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":"
             "\"%s\"},\"behavior\":\"%s\",\"invert\":false},"
             "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2,"
             "\" \":3,\"\xc2\xbd\":4,\" a\":5},\"merges\":[\"a b\"]}}",
             pattern, behavior);
    tt_tokenizer *t = open_json(json);
    gives(t, words, false, want);
    tt_tokenizer_close(t);
}

// A match without text parts what stands before it from what comes after.
TEST(tokenizer_json_splits_where_nothing_is_matched)
{
    static const char *const all[] = {"Isolated", "Removed", "MergedWithNext",
                                      "MergedWithPrevious", "Contiguous"};
    enter();
    for (int i = 0; i < 5; i++) {
        splits("(?=b)", all[i], "ab ab", "0 1 3 0 1");
        splits("(?<=a)", all[i], "abab", "0 1 0 1");
        splits("\\\\b", all[i], "ab ab", "2 3 2");
        splits("^|$", all[i], "ab", "2");
    }
    splits("\\\\s*", "Removed", "ab b", "0 1 1");
    splits("\\\\s*", "Isolated", "ab b", "0 1 3 1");
    splits("|ab", "Isolated", "ab", "0 1");
    leave();
}

// Numbers of Latin-1 are in words, but not in \w inside of a class.
TEST(tokenizer_json_knows_what_is_in_words)
{
    enter();
    splits("\\\\bb", "Removed",
           "\xc2\xbd"
           "b b",
           "4 1 3");
    splits("\\\\w", "Removed", "\xc2\xbd b", "3");
    splits("[\\\\w]", "Removed", "\xc2\xbd b", "4 3");
    leave();
}

TEST(tokenizer_json_finds_added_tokens)
{
    enter();
    tt_tokenizer *t = open_json(FILE_OF(
        LEVEL("false", "true"),
        "{\"id\":9,\"content\":\"<s>\",\"special\":true},"
        "{\"id\":10,\"content\":\"<s><s>\",\"special\":true},"
        "{\"id\":11,\"content\":\"bb\",\"special\":false},"
        "{\"id\":12,\"content\":\"</s>\",\"special\":true,\"lstrip\":true,"
        "\"rstrip\":true}",
        "", "\"a b\""));
    CHECK(tt_tokenizer_vocab(t) == 13 && tt_tokenizer_end(t) == 12);
    gives(t, "a<s>b<s><s><s>", true, "0 9 1 10 9");
    gives(t, "abba", false, "0 11 0");
    gives(t, "a \xc2\xa0</s>\n b", true, "0 12 1");
    tt_ids ids = {0};
    CHECK(tt_tokenizer_encode(t, "a<s>", 4, false, &ids) == TT_ERR_ARG);
    CHECK(strcmp(tt_error_message(), "byte 1 of the text: the tokenizer has no "
                                     "token for byte 0x3c") == 0);
    tt_ids_fini(&ids);
    tt_tokenizer_close(t);
    leave();
}

#define NORMALIZED(norm)                                                       \
    "{\"normalizer\":" norm ",\"model\":{\"type\":\"BPE\"," VOCAB              \
    ",\"merges\":[]}}"

TEST(tokenizer_json_refuses_by_name)
{
    enter();
    refuses("{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}",
            "model.vocab must be an object of ids");
    refuses("{\"model\":{\"type\":\"Unigram\"}}",
            "model.vocab must be an array");
    refuses("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}",
            "model.vocab[0] must be a token and its score");
    refuses("{\"model\":{\"type\":\"Markov\"}}",
            "model \"Markov\" is not supported");
    refuses("[]", "model \"\"");
    refuses(NORMALIZED("{\"type\":\"Precompiled\"}"),
            "normalizer \"Precompiled\" is not supported");
    refuses(NORMALIZED("{\"type\":\"Sequence\",\"normalizers\":[{\"type\":"
                       "\"NFC\"},{\"type\":\"Magic\"}]}"),
            "normalizer \"Magic\" is not supported");
    refuses(NORMALIZED("{\"type\":\"Replace\",\"content\":\"\"}"),
            "normalizer Replace has no pattern");
    refuses(NORMALIZED("{\"type\":\"Prepend\"}"),
            "normalizer Prepend has no prepend");
    refuses(FILE_OF("{\"type\":\"UnicodeScripts\"}", "", "", ""),
            "pre_tokenizer \"UnicodeScripts\" is not supported");
    refuses(FILE_OF("{\"type\":\"Metaspace\",\"prepend_scheme\":\"x\"}", "", "",
                    ""),
            "prepend_scheme \"x\"");
    refuses(FILE_OF("{\"type\":\"Sequence\",\"pretokenizers\":[" LEVEL(
                        "false", "true") ",{\"type\":\"Digits\"}]}",
                    "", "", ""),
            "pre_tokenizer \"Digits\" after ByteLevel");
    refuses(FILE_OF("null,\"decoder\":{\"type\":\"CTC\"}", "", "", ""),
            "decoder \"CTC\" is not supported");
    refuses(FILE_OF("null", "", "\"unk_token\":\"?\",", ""),
            "model.unk_token \"?\" is not in the vocabulary");
    refuses(FILE_OF("null", "", "", "\"a c\""),
            "model.merges[0]: \"a\" and \"c\" are not both in the");
    refuses(FILE_OF(LEVEL("false", "true"), "",
                    "\"end_of_word_suffix\":\"</w>\",", ""),
            "model.end_of_word_suffix");
    refuses(FILE_OF(LEVEL("false", "true"), "", "\"dropout\":0.1,", ""),
            "model.dropout");
    refuses(FILE_OF(LEVEL("false", "true"), "", "", "\"a\""),
            "model.merges[0]: must be");
    refuses(FILE_OF(LEVEL("false", "true"), "", "", "\"a b\",\"b b\""),
            "model.merges[1]: \"b\" and \"b\" together are not in the");
    refuses(FILE_OF(LEVEL("false", "true"),
                    "{\"id\":99999999,\"content\":\"<s>\"}", "", ""),
            "added token \"<s>\": its id");
    refuses(FILE_OF(LEVEL("false", "true"), "{\"id\":1,\"content\":\"<s>\"}",
                    "", ""),
            "id 1 is given to two tokens");
    refuses(FILE_OF("{\"type\":\"Split\",\"pattern\":{\"Regex\":\" \"},"
                    "\"behavior\":\"Sideways\"}",
                    "", "", ""),
            "behavior \"Sideways\"");
    refuses(FILE_OF("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                    "\"Split\",\"pattern\":{\"Regex\":\"[\"},\"behavior\":"
                    "\"Isolated\"}]}",
                    "", "", ""),
            "the split pattern \"[\"");
    leave();
}

// Many small tokens: as many as may be, and more.
TEST(tokenizer_json_costs_its_size_and_64_mib_at_most)
{
    enter();
    int n_open = 0;
    for (int64_t n = 100000; n <= 1600000; n *= 2) {
        tt_str s = {0};
        tt_tokenizer *t = NULL;
        tt_str_add(&s, "{\"pre_tokenizer\":" LEVEL(
                           "false", "true") ",\"model\":{\"merges\":[]");
        tt_str_add(&s, ",\"vocab\":{\"a\":0");
        for (int64_t i = 1; i < n; i++)
            tt_str_addf(&s, ",\"%llx\":%lld", (long long)i + 0x100,
                        (long long)i);
        tt_str_add(&s, "}}}");
        put("t.json", s.text, s.n);
        const int64_t bytes = s.n;
        tt_str_fini(&s);
        const int64_t before = tt_alloc_bytes();
        tt_alloc_peak_reset();
        if (tt_tokenizer_open("t.json", NULL, 0, &t) == TT_OK)
            n_open++;
        else
            CHECK_MSG(strcmp(tt_error_message(),
                             "t.json: would need more memory than its own size "
                             "and 64 MiB") == 0,
                      "%s", tt_error_message());
        CHECK_MSG(tt_alloc_peak() - before <=
                      (1 + TT_TEST_SANITIZED) * (bytes + (64 << 20)),
                  "%lld: %lld", (long long)n,
                  (long long)(tt_alloc_peak() - before - bytes));
        tt_tokenizer_close(t);
    }
    CHECK(n_open >= 3 && n_open < 5);
    leave();
}

TEST(tokenizer_json_with_one_huge_token_costs_no_more)
{
    enter();
    tt_str s = {0}, letters = {0};
    tt_tokenizer *t = NULL;
    while (letters.n < 40 << 20)
        tt_str_add(&letters, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrst");
    tt_str_addf(
        &s,
        "{\"pre_tokenizer\":" LEVEL(
            "false", "true") ",\"model\":{"
                             "\"merges\":[],\"vocab\":{\"a\":0,\"%s\":1}}}",
        letters.text);
    const int64_t bytes = s.n;
    put("t.json", s.text, s.n);
    tt_str_fini(&s);
    tt_str_fini(&letters);
    tt_alloc_peak_reset();
    const tt_status status = tt_tokenizer_open("t.json", NULL, 0, &t);
    CHECK(status == TT_OK || status == TT_ERR_ARG);
    CHECK_MSG(tt_alloc_peak() <= (1 + TT_TEST_SANITIZED) * (bytes + (64 << 20)),
              "%lld", (long long)(tt_alloc_peak() - bytes));
    tt_tokenizer_close(t);
    leave();
}

TEST(tokenizer_json_survives_every_allocation_failure)
{
    enter();
    static const char json[] =
        FILE_OF(LEVEL("false", "true"), "{\"id\":9,\"content\":\"<s>\"}", "",
                "\"a b\",\"\xc4\xa0 a\"");
    put("t.json", json, sizeof json - 1);
    for (int64_t k = 1; k < 300; k++) {
        tt_tokenizer *t = NULL;
        tt_ids ids = {0};
        tt_alloc_fail_at(k);
        tt_status status = tt_tokenizer_open("t.json", NULL, 0, &t);
        if (status == TT_OK)
            status = tt_tokenizer_encode(t, "ab ab<s>", 8, true, &ids);
        const bool is_done = tt_alloc_count() < k;
        tt_alloc_fail_at(0);
        // Without memory for machine code the pattern is interpreted.
        CHECK_MSG(status == TT_OK || (!is_done && status == TT_ERR_NOMEM),
                  "%lld: %s", (long long)k, tt_error_message());
        tt_ids_fini(&ids);
        tt_tokenizer_close(t);
        CHECK(tt_alloc_live() == 0);
        if (is_done) {
            leave();
            return;
        }
    }
    CHECK_MSG(false, "it never finished");
}
