// test_tokenizers - the same ids and texts as the package `tokenizers`, and the same
// normal forms as python. write_tokenizers.py wrote what is compared with.

#include "base/alloc.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/utf8.h"
#include "data/tokenizer/detokenizer.h"
#include "data/tokenizer/tokenizer_stream.h"
#include "data/tokenizer/unicode.h"
#include "test.h"
#include "text/generator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char cases[] = "tests/oracle/tokenizers.jsonl";

typedef void case_fn(const tt_json_value *c);

static void for_each(case_fn *fn)
{
    tt_str text = {0};
    CHECK_OK(tt_file_read(cases, 16 << 20, &text));
    for (const char *p = text.text; *p != '\0';) {
        const int64_t n = (int64_t)strcspn(p, "\n");
        tt_arena *arena = tt_arena_create();
        const tt_json_value *c = NULL;
        CHECK_OK(tt_json_read(p, n, cases, arena, &c));
        fn(c);
        tt_arena_destroy(arena);
        p += n + (p[n] == '\n');
    }
    tt_str_fini(&text);
    CHECK(tt_alloc_live() == 0);
}

static tt_tokenizer *open_case(const tt_json_value *c)
{
    const tt_json_value *text = tt_json_get(c, "tokenizer");
    char path[64];
    tt_tokenizer *t = NULL;
    snprintf(path, sizeof path, "/tmp/tutti-tokenizers-%d.json", (int)getpid());
    CHECK_OK(tt_file_replace(path, text->text, text->n));
    const tt_status status = tt_tokenizer_open(path, NULL, 0, &t);
    (void)unlink(path);
    CHECK_MSG(status == TT_OK, "%s: %s",
              tt_json_text(tt_json_get(c, "name"), ""), tt_error_message());
    return t;
}

static void add_numbers(const tt_json_value *list, tt_ids *out)
{
    CHECK_OK(tt_ids_reserve(out, list->n));
    for (const tt_json_value *v = list->first; v != NULL; v = v->next)
        out->v[out->n++] = (int32_t)tt_json_int(v, -1);
}

// Bit by bit it must be the same.
static void encode(const tt_tokenizer *t, const tt_json_value *text,
                   bool special, int64_t bytes, tt_ids *out)
{
    tt_encoder *e = NULL;
    bool more = true;
    CHECK_OK(tt_encoder_open(t, text->text, text->n, special, &e));
    while (more)
        CHECK_OK(tt_encoder_next(e, bytes, out, &more));
    tt_encoder_close(e);
}

static void check_encoded(const tt_json_value *c)
{
    if (tt_json_get(c, "tokenizer") == NULL)
        return;
    const char *name = tt_json_text(tt_json_get(c, "name"), "");
    tt_tokenizer *t = open_case(c);
    for (const tt_json_value *v = tt_json_get(c, "encoded")->first; v != NULL;
         v = v->next) {
        const tt_json_value *text = v->first, *special = text->next;
        for (int64_t bytes = 1; bytes < 1000; bytes += 900) {
            tt_ids want = {0}, got = {0};
            add_numbers(special->next, &want);
            encode(t, text, special->is_true, bytes, &got);
            CHECK_MSG(want.n == got.n &&
                          (want.n == 0 ||
                           memcmp(want.v, got.v, 4 * (size_t)want.n) == 0),
                      "%s: %s", name, text->text);
            tt_ids_fini(&want);
            tt_ids_fini(&got);
        }
    }
    tt_tokenizer_close(t);
}

// The package puts U+FFFD where bytes are no characters; ours has the bytes.
static void check_text(const char *name, const tt_json_value *want,
                       const tt_str *got)
{
    tt_str clean = {0};
    tt__utf8_clean(tt_str_text(got), got->n, &clean);
    CHECK_MSG(want->n == clean.n &&
                  memcmp(want->text, tt_str_text(&clean), (size_t)want->n) == 0,
              "%s: \"%s\", not \"%s\"", name, tt_str_text(&clean), want->text);
    tt_str_fini(&clean);
}

static void check_decoded(const tt_json_value *c)
{
    if (tt_json_get(c, "tokenizer") == NULL)
        return;
    const char *name = tt_json_text(tt_json_get(c, "name"), "");
    tt_tokenizer *t = open_case(c);
    for (const tt_json_value *v = tt_json_get(c, "decoded")->first; v != NULL;
         v = v->next) {
        tt_ids ids = {0};
        tt_str all = {0}, parts = {0};
        tt_detokenizer *d = NULL;
        add_numbers(v->first, &ids);
        CHECK_OK(tt_tokenizer_decode(t, ids.v, ids.n, &all));
        check_text(name, v->first->next, &all);
        CHECK_OK(tt_detokenizer_open(t, &d));
        for (int64_t i = 0; i < ids.n; i++)
            CHECK_OK(tt_detokenizer_next(d, ids.v[i], &parts));
        CHECK_OK(tt_detokenizer_flush(d, &parts));
        tt_detokenizer_close(d);
        CHECK(strcmp(tt_str_text(&all), tt_str_text(&parts)) == 0);
        tt_str_fini(&all);
        tt_str_fini(&parts);
        tt_ids_fini(&ids);
    }
    tt_tokenizer_close(t);
}

static void check_normal(const tt_json_value *c)
{
    static const char *const forms[] = {"NFC", "NFD", "NFKC", "NFKD"};
    const tt_json_value *pairs = tt_json_get(c, "normal");
    const char *name = tt_json_text(tt_json_get(c, "name"), "");
    const tt_unicode *u = NULL;
    int form = 0;
    if (pairs == NULL)
        return;
    while (strcmp(forms[form], name) != 0)
        form++;
    tt_arena *arena = tt_arena_create();
    CHECK_OK(tt_unicode_open(arena, &u));
    for (const tt_json_value *v = pairs->first; v != NULL; v = v->next) {
        tt_str got = {0};
        const tt_json_value *text = v->first, *want = text->next;
        CHECK_OK(tt_unicode_normalize(u, (tt_unicode_form)form, text->text,
                                      text->n, &got));
        CHECK_MSG(strcmp(tt_str_text(&got), want->text) == 0,
                  "%s of \"%s\": \"%s\", not \"%s\"", name, text->text,
                  tt_str_text(&got), want->text);
        tt_str_fini(&got);
    }
    tt_arena_destroy(arena);
}

TEST(tokenizers_give_the_ids_of_hugging_face)
{
    for_each(check_encoded);
}

TEST(tokenizers_give_the_texts_of_hugging_face)
{
    for_each(check_decoded);
}

// Ids in any order, of bytes too: what comes out after each is whole characters.
static void check_whole(const tt_json_value *c)
{
    const char *name = tt_json_text(tt_json_get(c, "name"), "");
    const bool is_text = strcmp(name, "llama 2") == 0 ||
                         strcmp(name, "mistral") == 0 ||
                         strcmp(name, "gemma") == 0;
    if (!is_text)
        return;
    tt_tokenizer *t = open_case(c);
    tt_detokenizer *d = NULL;
    tt_str out = {0};
    uint64_t x = 1;
    CHECK_OK(tt_detokenizer_open(t, &d));
    for (int i = 0; i < 20000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        const int64_t from = out.n;
        const int32_t id = (int32_t)((x >> 33) % 400);
        CHECK_OK(tt_detokenizer_next(d, id, &out));
        CHECK(tt_utf8_valid(tt_str_text(&out) + from, out.n - from) ==
              out.n - from);
    }
    CHECK_OK(tt_detokenizer_flush(d, &out));
    CHECK(tt_utf8_valid(out.text, out.n) == out.n);
    tt_str_fini(&out);
    tt_detokenizer_close(d);
    tt_tokenizer_close(t);
}

TEST(tokenizers_write_whole_characters)
{
    for_each(check_whole);
}

TEST(unicode_gives_the_normal_forms_of_python)
{
    for_each(check_normal);
}

// A mark after another one of a lower class, thousands of times.
TEST(unicode_orders_long_runs_of_marks)
{
    tt_arena *arena = tt_arena_create();
    const tt_unicode *u = NULL;
    tt_str text = {0}, once = {0}, twice = {0};
    CHECK_OK(tt_unicode_open(arena, &u));
    tt_str_add(&text, "a");
    for (int i = 0; i < 200000; i++)
        tt_str_add(&text, "\xcc\x81\xcc\xa3"); // above, then below
    CHECK_OK(tt_unicode_normalize(u, TT_UNICODE_NFD, text.text, text.n, &once));
    CHECK(once.n == text.n && memcmp(once.text, "a\xcc\xa3\xcc\xa3", 5) == 0);
    CHECK(memcmp(once.text + once.n - 4, "\xcc\x81\xcc\x81", 4) == 0);
    CHECK_OK(
        tt_unicode_normalize(u, TT_UNICODE_NFD, once.text, once.n, &twice));
    CHECK(twice.n == once.n && memcmp(once.text, twice.text, once.n) == 0);
    tt_str_fini(&text);
    tt_str_fini(&once);
    tt_str_fini(&twice);
    tt_arena_destroy(arena);
}

static bool use(const char *path)
{
    static const char text[] = "The caf\xc3\xa9  <s>\xe4\xbd\xa0\xff ab\n";
    tt_tokenizer *t = NULL;
    tt_ids ids = {0};
    tt_str back = {0}, json = {0};
    tt_status status = tt_tokenizer_open(path, NULL, 0, &t);
    if (status == TT_OK)
        status = tt_tokenizer_encode(t, text, sizeof text - 1, true, &ids);
    if (status == TT_OK)
        status = tt_tokenizer_decode(t, ids.v, ids.n, &back);
    if (status == TT_OK) {
        tt_tokenizer_print(t, &json);
        status = tt_str_status(&json);
    }
    CHECK_MSG(status == TT_OK || status == TT_ERR_NOMEM, "%s",
              tt_error_message());
    tt_ids_fini(&ids);
    tt_str_fini(&back);
    tt_str_fini(&json);
    tt_tokenizer_close(t);
    return status == TT_OK;
}

static void fail_each(const tt_json_value *c)
{
    const char *name = tt_json_text(tt_json_get(c, "name"), "");
    const tt_json_value *text = tt_json_get(c, "tokenizer");
    char path[64];
    // Those that have tokens for bytes: the text has one that is no character.
    if (strcmp(name, "llama 2") != 0 && strcmp(name, "qwen 2") != 0)
        return;
    snprintf(path, sizeof path, "/tmp/tutti-tokenizers-%d.json", (int)getpid());
    CHECK_OK(tt_file_replace(path, text->text, text->n));
    bool is_done = false;
    const int64_t live = tt_alloc_live();
    for (int64_t k = 1; !is_done; k++) {
        tt_alloc_fail_at(k);
        is_done = use(path) && tt_alloc_count() < k;
        tt_alloc_fail_at(0);
        CHECK_MSG(tt_alloc_live() == live, "%s: %lld", name, (long long)k);
    }
    (void)unlink(path);
}

TEST(tokenizers_survive_every_failing_allocation)
{
    for_each(fail_each);
}
