// Generating: what is written, when it ends, and what happens at the end of the
// context.

#include "test.h"
#include "text/generator.h"

#include <stdio.h>
#include <string.h>

enum { CONTEXT = 9, VOCAB = 21, MOST = 64 };

typedef struct fixture {
    tt_arena *arena;
    tt_job *job;
    tt_generator *generator;
} fixture;

static void fixture_open(fixture *f, const char *model,
                         const tt_tokenizer *tokenizer, int64_t vocab)
{
    char text[32];
    const char *const keys[][2] = {
        {"model", model},      {"device", "ref"},     {"precision", "fp64"},
        {"seq", "9"},          {"model.layers", "1"}, {"batch", "1"},
        {"model.vocab", text},
    };
    tt_settings settings = {0};
    snprintf(text, sizeof text, "%lld", (long long)vocab);
    f->arena = tt_arena_create();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        CHECK_OK(tt_settings_set(&settings, keys[i][0], keys[i][1], "test",
                                 f->arena));
    if (strcmp(model, "lstm") != 0) {
        CHECK_OK(
            tt_settings_set(&settings, "model.width", "16", "test", f->arena));
        CHECK_OK(
            tt_settings_set(&settings, "model.heads", "4", "test", f->arena));
        CHECK_OK(tt_settings_set(&settings, "model.deviation", "0.5", "test",
                                 f->arena));
    }
    CHECK_OK(tt_job_configure(&settings, NULL, &f->job));
    CHECK_OK(tt_generator_open(f->job, tokenizer, &f->generator));
    CHECK_OK(tt_job_start(f->job, NULL));
    CHECK_OK(tt_generator_sync(f->generator, f->job, false));
}

static void fixture_close(fixture *f)
{
    tt_generator_close(f->generator);
    tt_job_close(f->job);
    tt_arena_destroy(f->arena);
}

typedef struct line {
    int32_t id[MOST];
    int n, stop_at;
    volatile sig_atomic_t stop;
} line;

static tt_status take(void *user, int32_t id)
{
    line *l = user;
    CHECK(l->n < MOST);
    l->id[l->n++] = id;
    l->stop = l->n == l->stop_at;
    return TT_OK;
}

static void run(fixture *f, tt_generate_ids ids, line *out,
                tt_generate_result *result)
{
    out->n = 0;
    out->stop = 0;
    ids.token = take;
    ids.user = out;
    CHECK_OK(tt_decoder_generate(f->generator->decoder, &ids, result));
    CHECK(result->n_tokens == out->n);
}

static int32_t likeliest(const tt_decoder *d)
{
    const double *logits = tt_decoder_logits(d);
    int32_t best = 0;
    for (int32_t i = 1; i < VOCAB; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

// Greedy, every token from nothing: when more than the context would be read, only
// the last half of it is.
static void plainly(tt_decoder *d, int32_t *ids, int n, int end)
{
    int first = n > CONTEXT ? n - CONTEXT : 0;
    for (; n < end; n++) {
        if (n - first > CONTEXT)
            first = n - CONTEXT / 2;
        CHECK_OK(tt_decoder_reset(d));
        CHECK_OK(tt_decoder_feed(d, ids + first, n - first));
        ids[n] = likeliest(d);
    }
}

TEST(a_text_goes_on_when_the_context_is_full)
{
    static const char *const models[] = {"gpt", "llama"};
    const int lengths[] = {1, 3, 8, 9, 10, 20};
    for (int m = 0; m < 2; m++) {
        fixture f;
        fixture_open(&f, models[m], NULL, VOCAB);
        for (int i = 0; i < 6; i++) {
            int32_t want[MOST] = {0};
            line got = {0};
            tt_generate_result r;
            for (int k = 0; k < lengths[i]; k++)
                want[k] = (k * k + 3 * m) % VOCAB;
            run(&f,
                (tt_generate_ids){.prompt = want,
                                  .n_prompt = lengths[i],
                                  .tokens = 40,
                                  .end = -1},
                &got, &r);
            plainly(f.generator->decoder, want, lengths[i], lengths[i] + 40);
            CHECK(got.n == 40 && !r.is_end);
            CHECK(r.n_prompt == lengths[i]);
            CHECK(r.n_cut == (lengths[i] > 9 ? lengths[i] - 9 : 0));
            CHECK(memcmp(got.id, want + lengths[i], 40 * sizeof *want) == 0);
        }
        fixture_close(&f);
    }
}

TEST(a_recurrent_text_has_no_end_of_context)
{
    fixture f;
    const int32_t first = 2;
    line a = {0}, b = {0};
    tt_generate_result r;
    fixture_open(&f, "lstm", NULL, VOCAB);
    tt_generate_ids ids = {.prompt = &first,
                           .n_prompt = 1,
                           .tokens = 50,
                           .end = -1,
                           .sampler = {1, 0, 1, 4}};
    run(&f, ids, &a, &r);
    run(&f, ids, &b, &r);
    CHECK(a.n == 50 && memcmp(a.id, b.id, sizeof a.id) == 0);
    fixture_close(&f);
}

TEST(seed_and_number_choose_the_text)
{
    fixture f;
    const int32_t first = 2;
    line a = {0}, b = {0};
    tt_generate_result r;
    fixture_open(&f, "gpt", NULL, VOCAB);
    tt_generate_ids ids = {.prompt = &first,
                           .n_prompt = 1,
                           .tokens = 30,
                           .end = -1,
                           .sampler = {5, 0, 1, 4}};
    run(&f, ids, &a, &r);
    run(&f, ids, &b, &r);
    CHECK(memcmp(a.id, b.id, sizeof a.id) == 0);
    ids.sampler.seed = 5;
    run(&f, ids, &b, &r);
    CHECK(memcmp(a.id, b.id, sizeof a.id) != 0);
    ids.sampler.seed = 4;
    ids.number = 1;
    run(&f, ids, &b, &r);
    CHECK(memcmp(a.id, b.id, sizeof a.id) != 0);
    fixture_close(&f);
}

TEST(a_text_ends_where_it_should)
{
    fixture f;
    const int32_t first = 2;
    line all = {0}, some = {0};
    tt_generate_result r;
    fixture_open(&f, "gpt", NULL, VOCAB);
    tt_generate_ids ids = {.prompt = &first,
                           .n_prompt = 1,
                           .tokens = 30,
                           .end = -1,
                           .sampler = {5, 0, 1, 4}};
    run(&f, ids, &all, &r);
    ids.end = all.id[7];
    int expected = 0;
    while (all.id[expected] != ids.end)
        expected++;
    run(&f, ids, &some, &r);
    CHECK(r.is_end && some.n == expected);
    // Any of several ends it, not the first one alone.
    const int32_t ends[] = {VOCAB - 1, all.id[7]};
    ids.end = VOCAB;
    ids.other_ends = ends;
    ids.n_other_ends = 2;
    for (expected = 0;
         all.id[expected] != ends[0] && all.id[expected] != ends[1];)
        expected++;
    run(&f, ids, &some, &r);
    CHECK(r.is_end && some.n == expected);
    ids.n_other_ends = 0;
    ids.end = -1;
    ids.tokens = 0;
    run(&f, ids, &some, &r);
    CHECK(some.n == 0 && !r.is_end);
    ids.tokens = 30;
    some.stop_at = 5;
    ids.stop = &some.stop;
    run(&f, ids, &some, &r);
    CHECK(some.n == 5);
    ids.stop = NULL;
    ids.vocab = 3; // of a smaller tokenizer
    run(&f, ids, &some, &r);
    for (int i = 0; i < some.n; i++)
        CHECK(some.id[i] < 3);
    fixture_close(&f);
}

// ---- text ----------------------------------------------------------------

static tt_status add_text(void *user, const char *text, int64_t n)
{
    CHECK(n > 0 && tt__utf8_whole(text, n) == n);
    tt_str_add_bytes(user, text, n);
    return tt_str_status(user);
}

TEST(bytes_are_written_as_whole_characters)
{
    tt_tokenizer *bytes = NULL;
    tt_str a = {0}, b = {0};
    tt_generate_result r;
    fixture f;
    CHECK_OK(tt_tokenizer_open("bytes", NULL, 0, &bytes));
    fixture_open(&f, "gpt", bytes, tt_tokenizer_vocab(bytes));
    tt_generate_request request = {.prompt = "h\xc3\xa9",
                                   .n_prompt = 3,
                                   .tokens = 200,
                                   .sampler = {3, 0, 1, 4},
                                   .write = add_text,
                                   .user = &a};
    CHECK_OK(tt_generate(f.generator, &request, &r));
    CHECK(r.n_prompt == 3 && r.n_tokens > 0);
    CHECK(a.n > 100 && tt__utf8_whole(a.text, a.n) == a.n);
    request.user = &b;
    CHECK_OK(tt_generate(f.generator, &request, &r));
    CHECK(strcmp(tt_str_text(&a), tt_str_text(&b)) == 0);
    request.n_prompt = 0;
    CHECK_OK(tt_generate(f.generator, &request, &r));
    CHECK(r.n_prompt == 1);
    fixture_close(&f);
    tt_str_fini(&a);
    tt_str_fini(&b);
    tt_tokenizer_close(bytes);
}

TEST(without_a_tokenizer_texts_are_ids)
{
    tt_str text = {0};
    fixture f;
    fixture_open(&f, "gpt", NULL, VOCAB);
    tt_generate_request request = {.prompt = "3, 20 0",
                                   .n_prompt = 7,
                                   .tokens = 2,
                                   .write = add_text,
                                   .user = &text};
    tt_generate_result r;
    CHECK_OK(tt_generate(f.generator, &request, &r));
    CHECK(r.n_prompt == 3 && tt_str_text(&text)[0] == ' ');
    static const char *const bad[] = {"21", "x", "3 -1", "99999999999"};
    for (int i = 0; i < 4; i++) {
        request.prompt = bad[i];
        request.n_prompt = (int64_t)strlen(bad[i]);
        CHECK(tt_generate(f.generator, &request, &r) == TT_ERR_ARG);
    }
    fixture_close(&f);
    tt_str_fini(&text);
}

static void check_utf8(const char *text, int64_t n, int64_t whole,
                       const char *clean)
{
    tt_str out = {0};
    CHECK(tt__utf8_whole(text, n) == whole);
    tt__utf8_clean(text, n, &out);
    CHECK_MSG(strcmp(tt_str_text(&out), clean) == 0, "%s is not %s",
              tt_str_text(&out), clean);
    tt_str_fini(&out);
}

#define BAD "\xef\xbf\xbd"

TEST(characters_are_whole_or_replaced)
{
    check_utf8("abc", 3, 3, "abc");
    check_utf8("a\xc3\xa9", 3, 3, "a\xc3\xa9");
    check_utf8("a\xc3", 2, 1, "a" BAD);
    check_utf8("\xe2\x98", 2, 0, BAD);
    check_utf8("\xe2\x98\x95", 3, 3, "\xe2\x98\x95");
    check_utf8("\xf0\x9f\x98\x80", 4, 4, "\xf0\x9f\x98\x80");
    check_utf8("\xf0\x9f\x98", 3, 0, BAD);
    check_utf8("\x80z", 2, 2, BAD "z");
    check_utf8("\xc3z", 2, 2, BAD "z");
    check_utf8("\xe2\x98z", 3, 3, BAD "z");
    check_utf8("\xc0\xaf", 2, 2, BAD BAD);         // overlong
    check_utf8("\xed\xa0\x80", 3, 3, BAD BAD BAD); // a surrogate
    check_utf8("\xf4\x90\x80\x80", 4, 4, BAD BAD BAD BAD);
    check_utf8("\xff", 1, 1, BAD);
    check_utf8("", 0, 0, "");
}
