// test_bpe - what the trainer learns.

#include "base/alloc.h"
#include "base/json_read.h"
#include "base/map.h"
#include "data/tokenizer/tokenizer.h"
#include "test.h"

#include <string.h>
#include <unistd.h>

#define FIXTURES "../shared/data/bpe-fixtures/"

static const char *const special[] = {"<|endoftext|>"};

static tt_tokenizer *train(const char *text, int64_t n, int64_t vocab)
{
    tt_tokenizer *t = NULL;
    const tt_bpe_options options = {
        .vocab = vocab, .special = special, .n_special = 1};
    CHECK_MSG(tt_bpe_train(&(tt_text){text, n}, 1, &options, &t) == TT_OK, "%s",
              tt_error_message());
    return t;
}

TEST(bpe_training_reproduces_the_fixtures)
{
    tt_map corpus = {0}, merges = {0}, vocab = {0};
    if (access(FIXTURES, R_OK) != 0)
        SKIP("there is no " FIXTURES);
    CHECK(tt_map_open(FIXTURES "corpus.en", &corpus) == TT_OK);
    CHECK(tt_map_open(FIXTURES "train-bpe-reference-merges.txt", &merges) ==
          TT_OK);
    CHECK(tt_map_open(FIXTURES "train-bpe-reference-vocab.json", &vocab) ==
          TT_OK);
    tt_tokenizer *t = train(corpus.data, corpus.bytes, 500);
    tt_str ours_vocab = {0}, ours_merges = {0};
    CHECK(tt_tokenizer_vocab(t) == 500 && tt_tokenizer_end(t) == 0);
    CHECK(tt_tokenizer_print_gpt2(t, &ours_vocab, &ours_merges) == TT_OK);
    const char *lines = strchr(ours_merges.text, '\n') + 1; // after #version
    CHECK(strncmp(lines, merges.data, (size_t)merges.bytes) == 0);

    tt_arena *arena = tt_arena_create();
    const tt_json_value *ours = NULL, *theirs = NULL;
    CHECK(tt_json_read(ours_vocab.text, ours_vocab.n, "a", arena, &ours) ==
          TT_OK);
    CHECK(tt_json_read(vocab.data, vocab.bytes, "b", arena, &theirs) == TT_OK);
    CHECK(ours->n == 500 && theirs->n == 500);
    for (const tt_json_value *v = theirs->first; v != NULL; v = v->next)
        CHECK_MSG(tt_json_int(tt_json_get(ours, v->key), -1) ==
                      tt_json_int(v, -2),
                  "%s", v->key);
    tt_arena_destroy(arena);
    tt_str_fini(&ours_vocab);
    tt_str_fini(&ours_merges);
    tt_tokenizer_close(t);
    tt_map_close(&corpus);
    tt_map_close(&merges);
    tt_map_close(&vocab);
    CHECK(tt_alloc_live() == 0);
}

static void merges_are(const char *text, int64_t vocab, const char *want)
{
    tt_str a = {0}, b = {0};
    tt_tokenizer *t = train(text, (int64_t)strlen(text), vocab);
    CHECK(tt_tokenizer_print_gpt2(t, &a, &b) == TT_OK);
    CHECK_MSG(strcmp(b.text, want) == 0, "%s: %s", text, b.text);
    tt_str_fini(&a);
    tt_str_fini(&b);
    tt_tokenizer_close(t);
}

TEST(bpe_ties_go_to_the_greater_bytes)
{
    merges_are("ab cd", 259, "#version: 0.2\nc d\na b\n");
    merges_are("aaaa", 260, "#version: 0.2\na a\naa aa\n");
    merges_are("aaaaa", 300, "#version: 0.2\na a\naa aa\naaaa a\n");
    merges_are("", 300, "#version: 0.2\n");
    merges_are("ab<|endoftext|>ab<|endoftext|>", 300, "#version: 0.2\na b\n");
}

TEST(bpe_training_takes_any_bytes)
{
    char text[3000];
    uint32_t state = 1;
    for (int i = 0; i < (int)sizeof text; i++) {
        state = state * 1664525 + 1013904223;
        text[i] = (char)(state >> 24);
    }
    tt_tokenizer *t = train(text, sizeof text, 400);
    tt_ids ids = {0};
    tt_str back = {0};
    CHECK(tt_tokenizer_encode(t, text, sizeof text, false, &ids) == TT_OK);
    CHECK(tt_tokenizer_decode(t, ids.v, ids.n, &back) == TT_OK);
    CHECK(back.n == sizeof text && memcmp(back.text, text, sizeof text) == 0);
    CHECK(ids.n < (int64_t)sizeof text);
    tt_ids_fini(&ids);
    tt_str_fini(&back);
    tt_tokenizer_close(t);
}

TEST(bpe_training_refuses_what_cannot_be)
{
    tt_tokenizer *t = NULL;
    tt_bpe_options options = {.vocab = 255};
    CHECK(tt_bpe_train(&(tt_text){"a", 1}, 1, &options, &t) == TT_ERR_ARG);
    options.vocab = 256;
    CHECK(tt_bpe_train(&(tt_text){"aa", 2}, 1, &options, &t) == TT_OK);
    CHECK(tt_tokenizer_vocab(t) == 256);
    tt_tokenizer_close(t);
    options.vocab = 300;
    options.pattern = "(";
    CHECK(tt_bpe_train(&(tt_text){"a", 1}, 1, &options, &t) == TT_ERR_ARG);
    CHECK(strncmp(tt_error_message(), "the split pattern \"(\": ", 23) == 0);
    const char *const twice[] = {"<a>", "<a>"};
    options = (tt_bpe_options){.vocab = 300, .special = twice, .n_special = 2};
    CHECK(tt_bpe_train(&(tt_text){"a", 1}, 1, &options, &t) == TT_ERR_ARG);
    CHECK(tt_alloc_live() == 0);
}

TEST(bpe_training_survives_every_allocation_failure)
{
    const tt_bpe_options options = {
        .vocab = 262, .special = special, .n_special = 1};
    static const char text[] = "the cat sat on the mat<|endoftext|>that";
    for (int64_t k = 1; k < 500; k++) {
        tt_tokenizer *t = NULL;
        tt_alloc_fail_at(k);
        const tt_status status =
            tt_bpe_train(&(tt_text){text, sizeof text - 1}, 1, &options, &t);
        const bool is_done = tt_alloc_count() < k;
        tt_alloc_fail_at(0);
        // Without memory for machine code the pattern is interpreted.
        CHECK_MSG(status == TT_OK || (!is_done && status == TT_ERR_NOMEM),
                  "%lld: %s", (long long)k, tt_error_message());
        tt_tokenizer_close(t);
        CHECK(tt_alloc_live() == 0);
        if (is_done)
            return;
    }
    CHECK_MSG(false, "it never finished");
}
