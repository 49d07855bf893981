// test_json_read - what is read, what is refused and where, and at what cost.

#include "base/alloc.h"
#include "base/json_read.h"
#include "base/str.h"
#include "base/utf8.h"
#include "test.h"

#include <string.h>

static tt_arena *arena;

static const tt_json_value *read_text(const char *text)
{
    const tt_json_value *root = NULL;
    tt_arena_destroy(arena);
    arena = tt_arena_create();
    if (tt_json_read(text, (int64_t)strlen(text), "f", arena, &root) != TT_OK)
        return NULL;
    return root;
}

static void leave(void)
{
    tt_arena_destroy(arena);
    CHECK(tt_alloc_live() == 0);
}

static void refuses(const char *text, const char *message)
{
    CHECK_MSG(read_text(text) == NULL, "read: %s", text);
    CHECK_MSG(strcmp(tt_error_message(), message) == 0, "%s: %s", text,
              tt_error_message());
}

TEST(json_reads_every_kind)
{
    const tt_json_value *v = read_text(
        " {\"a\": [1, -2.5e1, \"x\"], \"b\": true, \"c\": null,\n\"\": {}} ");
    CHECK(v != NULL && v->type == TT_JSON_OBJECT && v->n == 4);
    const tt_json_value *a = tt_json_get(v, "a");
    CHECK(a->type == TT_JSON_ARRAY && a->n == 3);
    CHECK(tt_json_int(a->first, 0) == 1);
    CHECK(tt_json_number(a->first->next, 0) == -25);
    CHECK(tt_json_int(a->first->next, 7) == 7);
    CHECK(strcmp(tt_json_text(a->first->next->next, ""), "x") == 0);
    CHECK(a->first->next->next->next == NULL);
    CHECK(tt_json_truth(tt_json_get(v, "b"), false));
    CHECK(tt_json_get(v, "c")->type == TT_JSON_NULL);
    CHECK(tt_json_get(v, "")->n == 0);
    CHECK(tt_json_get(v, "d") == NULL && tt_json_get(a, "a") == NULL);
    CHECK(tt_json_get(NULL, "a") == NULL);
    CHECK(strcmp(tt_json_text(NULL, "none"), "none") == 0);
    leave();
}

TEST(json_whole_numbers_are_exact)
{
    const tt_json_value *v =
        read_text("[9223372036854775807,-9223372036854775808,"
                  "9223372036854775808,1.0,1e3,-0]");
    const int64_t want[] = {INT64_MAX, INT64_MIN, 5, 5, 5, 0};
    v = v->first;
    for (int i = 0; i < 6; i++, v = v->next)
        CHECK_MSG(tt_json_int(v, 5) == want[i], "%s", v->text);
    leave();
}

TEST(json_escapes_are_resolved)
{
    const tt_json_value *v =
        read_text("[\"\\\"\\\\\\/"
                  "\\b\\f\\n\\r\\t\",\"\\u00e9\\ud83d\\ude42\",\"a\\u0000b\"]");
    CHECK(v != NULL);
    v = v->first;
    CHECK(strcmp(v->text, "\"\\/\b\f\n\r\t") == 0 && v->n == 8);
    CHECK(strcmp(v->next->text, "\xc3\xa9\xf0\x9f\x99\x82") == 0);
    CHECK(v->next->next->n == 3 && memcmp(v->next->next->text, "a\0b", 4) == 0);
    leave();
}

TEST(json_errors_say_where)
{
    refuses("", "f:1:1: the text ends where a value should be");
    refuses("{\n  \"\xc3\xa9\": x}", "f:2:8: 'x' where a value should be");
    refuses("{\"a\":1,}", "f:1:8: '}' where a key in quotes should be");
    refuses("[1,]", "f:1:4: ']' where a value should be");
    refuses("[1 2]", "f:1:4: '2' where ',' or ']' should be");
    refuses("{\"a\" 1}", "f:1:6: '1' where ':' should be");
    refuses("{\"a\":1]", "f:1:7: ']' where ',' or '}' should be");
    refuses("[01]", "f:1:3: '1' where ',' or ']' should be");
    refuses("[-]", "f:1:3: ']' where a digit should be");
    refuses("[1.]", "f:1:4: ']' where a digit should be");
    refuses("[.5]", "f:1:2: '.' where a value should be");
    refuses("[1e]", "f:1:4: ']' where a digit should be");
    refuses("[+1]", "f:1:2: '+' where a value should be");
    refuses("[nul]", "f:1:2: 'n' where a value should be");
    refuses("[NaN]", "f:1:2: 'N' where a value should be");
    refuses("[\"a]", "f:1:2: this string does not end");
    refuses("[\"a\\\"]", "f:1:2: this string does not end");
    refuses("[\"\\x\"]", "f:1:3: unknown escape in a string");
    refuses("[\"\\u12g4\"]", "f:1:3: \\u needs four hexadecimal digits");
    refuses("[\"\\ud800x\"]", "f:1:3: half of a surrogate pair");
    refuses("[\"\\udc00\"]", "f:1:3: half of a surrogate pair");
    refuses("[\"\n\"]", "f:1:3: control character 0x0a in a string");
    refuses("[\"\xff\"]", "f:1:3: byte 0xff is not UTF-8");
    refuses("[\"\xed\xa0\x80\"]", "f:1:3: byte 0xed is not UTF-8");
    refuses("{}\n{}", "f:2:1: '{' where the end should be");
    refuses("\xef\xbb\xbf{}", "f:1:1: byte 0xef where a value should be");
    refuses("{\"a\":1,\n\"a\":2}", "f:2:1: duplicate key \"a\"");
    leave();
}

TEST(json_depth_is_limited)
{
    char text[2 * TT_JSON_DEPTH_MAX + 3] = {0};
    for (int i = 0; i < TT_JSON_DEPTH_MAX; i++) {
        text[i] = '[';
        text[2 * TT_JSON_DEPTH_MAX + 1 - i] = ']';
    }
    text[TT_JSON_DEPTH_MAX] = '[';
    text[TT_JSON_DEPTH_MAX + 1] = ']';
    CHECK(read_text(text) != NULL); // the innermost is empty
    text[TT_JSON_DEPTH_MAX] = '[';
    text[TT_JSON_DEPTH_MAX + 1] = '1';
    CHECK(read_text(text) == NULL);
    CHECK(strcmp(tt_error_message(), "f:1:65: nested deeper than 64") == 0);
    leave();
}

static void put_keys(tt_str *s, int64_t n)
{
    tt_str_add(s, "{");
    for (int64_t i = 0; i < n; i++)
        tt_str_addf(s, "\"k%lld\":%lld,", (long long)i, (long long)i);
}

TEST(json_duplicates_in_large_objects_are_found)
{
    tt_str s = {0};
    put_keys(&s, 200000);
    tt_str_add(&s, "\"end\":0}");
    const tt_json_value *v = read_text(tt_str_text(&s));
    CHECK(v != NULL && v->n == 200001);
    CHECK(tt_json_int(tt_json_get(v, "k199999"), 0) == 199999);
    tt_str_clear(&s);
    put_keys(&s, 100000);
    tt_str_add(&s, "\n\"k777\":0}");
    refuses(tt_str_text(&s), "f:2:1: duplicate key \"k777\"");
    tt_str_fini(&s);
    leave();
}

TEST(json_costs_its_size_and_64_mib_at_most)
{
    static const char *const pieces[] = {"1,", "[],", "{\"a\":1},", "[[1]],"};
    for (int i = 0; i < 4; i++) {
        tt_str s = {0};
        tt_str_add(&s, "[");
        while (s.n < 6 << 20)
            tt_str_add(&s, pieces[i]);
        tt_str_add(&s, "0]");
        const int64_t before = tt_alloc_bytes();
        tt_alloc_peak_reset();
        CHECK(read_text(tt_str_text(&s)) == NULL);
        CHECK(strcmp(tt_error_message(), "f: would need more memory than its "
                                         "own size and 64 MiB") == 0);
        // Guards between the blocks of arenas are as large as these at most.
        CHECK(tt_alloc_peak() - before <=
              (1 + TT_TEST_SANITIZED) * (s.n + TT_JSON_EXTRA));
        tt_str_fini(&s);
        tt_arena_destroy(arena);
        arena = NULL;
    }
    leave();
}

TEST(json_survives_every_allocation_failure)
{
    tt_str s = {0};
    put_keys(&s, 3000);
    tt_str_add(&s, "\"end\":0}");
    for (int64_t k = 1; k < 100; k++) {
        const tt_json_value *root = NULL;
        arena = NULL;
        tt_arena *a = tt_arena_create();
        tt_alloc_fail_at(k);
        const tt_status status =
            tt_json_read(tt_str_text(&s), s.n, "f", a, &root);
        const bool is_done = tt_alloc_count() < k;
        tt_alloc_fail_at(0);
        CHECK(status == (is_done ? TT_OK : TT_ERR_NOMEM));
        tt_arena_destroy(a);
        if (is_done) {
            tt_str_fini(&s);
            leave();
            return;
        }
    }
    CHECK_MSG(false, "it never finished");
}

TEST(utf8_knows_characters)
{
    uint32_t code = 0;
    char out[4];
    for (uint32_t c = 0; c < 0x110000; c += c < 0x3000 ? 1 : 77) {
        const int k = tt_utf8_write(c, out);
        const bool is_surrogate = c >= 0xd800 && c < 0xe000;
        CHECK(tt_utf8_read(out, 4, &code) == (is_surrogate ? 0 : k));
        CHECK(is_surrogate || code == c);
        CHECK(tt_utf8_read(out, k - 1, NULL) == 0);
    }
    CHECK(tt_utf8_valid("abcdefghijk\xc3\xa9 x", 15) == 15);
    CHECK(tt_utf8_valid("abcdefghijk\xc3", 12) == 11);
    CHECK(tt_utf8_valid("\xf4\x90\x80\x80", 4) == 0);
    CHECK(tt_utf8_valid("\xc1\x80", 2) == 0 && tt_utf8_valid("", 0) == 0);
}
