// Decoding: token by token with remembered keys, values and states = the forward
// pass over the whole text, whichever way the text was cut.

#include "base/alloc.h"
#include "base/rng.h"
#include "test.h"
#include "text/decode.h"

#include <string.h>

enum { LENGTH = 23, VOCAB = 29 };

typedef struct subject {
    const char *model, *options;
} subject;

static const subject subjects[] = {
    {"gpt", "layers=2 width=24 heads=3 vocab=29 context=23 deviation=0.4"},
    {"llama", "layers=2 width=32 heads=4 kv_heads=2 ff=40 vocab=29 context=40 "
              "deviation=0.4"},
    {"llama", "layers=1 width=24 heads=6 kv_heads=1 ff=16 vocab=29 context=23 "
              "deviation=0.4 tied=true theta=50"},
    {"lstm", "layers=2 embed=12 hidden=20 vocab=29 context=7"},
};
enum { N_SUBJECTS = sizeof subjects / sizeof *subjects };

typedef struct arrangement {
    const char *backend;
    tt_dtype dtype, master;
    int64_t chunk;
    bool is_windowed; // every token through the whole forward pass
} arrangement;

typedef struct fixture {
    tt_arena *arena;
    tt_backend *backend;
    tt_model_def model;
    tt_decoder *decoder;
} fixture;

static tt_status fixture_open(fixture *f, const subject *s,
                              const arrangement *setup)
{
    const tt_model_def *def = NULL;
    const tt_model_preset *preset = NULL;
    *f = (fixture){.arena = tt_arena_create()};
    if (f->arena == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_model_find(s->model, &def, &preset));
    f->model = *def;
    f->model.can_decode = def->can_decode && !setup->is_windowed;
    void *params = tt_arena_alloc(f->arena, def->params_bytes);
    if (params == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_opt_defaults(def->options, params, f->arena));
    TT_TRY(tt_opt_parse(def->options, params, s->options, f->arena));
    TT_TRY(tt_backend_open(tt_backend_find(setup->backend),
                           &(tt_backend_options){.n_threads = 2}, &f->backend));
    const tt_decoder_options options = {.backend = f->backend,
                                        .model = &f->model,
                                        .params = params,
                                        .dtype = setup->dtype,
                                        .master = setup->master,
                                        .context = LENGTH,
                                        .chunk = setup->chunk};
    TT_TRY(tt_decoder_open(&options, &f->decoder));
    return tt_exec_init_state(tt_decoder_exec(f->decoder), 5);
}

static void fixture_close(fixture *f)
{
    tt_decoder_close(f->decoder);
    tt_backend_close(f->backend);
    if (f->arena != NULL)
        tt_arena_destroy(f->arena);
}

static void make_text(int32_t *ids)
{
    const uint64_t key = tt_rng_key(3, "text", 0);
    for (int i = 0; i < LENGTH; i++)
        ids[i] = (int32_t)(tt_rng_u32(key, (uint64_t)i) % VOCAB);
}

// Logits after every prefix [LENGTH, VOCAB], by the whole forward pass.
static void whole(const subject *s, const arrangement *like, double *out)
{
    int32_t ids[LENGTH];
    fixture f;
    arrangement setup = *like;
    setup.is_windowed = true;
    make_text(ids);
    CHECK_OK(fixture_open(&f, s, &setup));
    CHECK(tt_decoder_context(f.decoder) == LENGTH);
    for (int i = 0; i < LENGTH; i++) {
        CHECK_OK(tt_decoder_feed(f.decoder, &ids[i], 1));
        memcpy(out + (ptrdiff_t)i * VOCAB, tt_decoder_logits(f.decoder),
               sizeof(double) * VOCAB);
    }
    fixture_close(&f);
}

static void check_close(const subject *s, const double *got, const double *want,
                        int position, double tolerance)
{
    double size = 1e-3;
    for (int i = 0; i < VOCAB; i++)
        size = fmax(size, fabs(want[i]));
    for (int i = 0; i < VOCAB; i++)
        CHECK_MSG(fabs(got[i] - want[i]) <= tolerance * size,
                  "%s: logit %d at %d is %.12g, not %.12g", s->model, i,
                  position, got[i], want[i]);
}

// Feeds the text in pieces of `step` tokens.
static void compare_with(const double *want, const subject *s,
                         const arrangement *setup, int step, double tolerance)
{
    int32_t ids[LENGTH];
    fixture f;
    make_text(ids);
    CHECK_OK(fixture_open(&f, s, setup));
    CHECK(tt_decoder_vocab(f.decoder) == VOCAB);
    for (int turn = 0; turn < 2; turn++) { // the second after a reset
        for (int i = 0; i < LENGTH; i += step) {
            const int n = i + step <= LENGTH ? step : LENGTH - i;
            CHECK_OK(tt_decoder_feed(f.decoder, ids + i, n));
            CHECK(tt_decoder_position(f.decoder) == i + n);
            check_close(s, tt_decoder_logits(f.decoder),
                        want + (ptrdiff_t)(i + n - 1) * VOCAB, i + n - 1,
                        tolerance);
        }
        CHECK_OK(tt_decoder_reset(f.decoder));
    }
    fixture_close(&f);
}

static void compare(const subject *s, const arrangement *setup, int step,
                    double tolerance)
{
    static double want[LENGTH * VOCAB];
    whole(s, setup, want);
    compare_with(want, s, setup, step, tolerance);
}

TEST(decoding_is_the_forward_pass_in_fp64)
{
    for (int i = 0; i < N_SUBJECTS; i++)
        compare(&subjects[i], &(arrangement){"ref", TT_F64, TT_F64, 0, false},
                1, 1e-9);
}

TEST(decoding_is_the_forward_pass_on_the_cpu)
{
    for (int i = 0; i < N_SUBJECTS; i++)
        compare(&subjects[i], &(arrangement){"cpu", TT_F32, TT_F32, 0, false},
                1, 1e-4);
}

TEST(decoding_is_the_forward_pass_in_bf16)
{
    for (int i = 0; i < N_SUBJECTS; i++)
        compare(&subjects[i], &(arrangement){"cpu", TT_BF16, TT_F32, 0, false},
                1, 0.06);
}

TEST(a_prompt_in_chunks_is_a_prompt_token_by_token)
{
    static const int64_t chunk[] = {1, 2, 3, 5, 11, 64};
    static const int step[] = {4, 9, 22, 23};
    static double want[LENGTH * VOCAB];
    for (int i = 0; i < N_SUBJECTS; i++) {
        arrangement setup = {"ref", TT_F64, TT_F64, 0, false};
        whole(&subjects[i], &setup, want);
        for (int c = 0; c < 6; c++)
            for (int k = 0; k < 4; k++) {
                setup.chunk = chunk[c];
                compare_with(want, &subjects[i], &setup, step[k], 1e-9);
            }
    }
}

TEST(a_prompt_in_chunks_on_the_cpu)
{
    for (int i = 0; i < N_SUBJECTS; i++) {
        compare(&subjects[i], &(arrangement){"cpu", TT_F32, TT_F32, 0, false},
                23, 1e-4);
        compare(&subjects[i], &(arrangement){"cpu", TT_F32, TT_F32, 7, false},
                9, 1e-4);
    }
}

TEST(a_recurrent_model_reads_any_number_of_tokens)
{
    fixture f;
    const int32_t id = 3;
    CHECK_OK(fixture_open(&f, &subjects[3],
                          &(arrangement){"cpu", TT_F32, TT_F32, 0, false}));
    CHECK(tt_decoder_context(f.decoder) == 0);
    for (int i = 0; i < 100; i++)
        CHECK_OK(tt_decoder_feed(f.decoder, &id, 1));
    CHECK(tt_decoder_position(f.decoder) == 100);
    fixture_close(&f);
}

TEST(what_a_decoder_cannot_read)
{
    fixture f;
    int32_t ids[LENGTH + 1] = {0};
    CHECK_OK(fixture_open(&f, &subjects[0],
                          &(arrangement){"ref", TT_F32, TT_F32, 0, false}));
    CHECK(tt_decoder_feed(f.decoder, ids, 0) == TT_ERR_ARG);
    CHECK(tt_decoder_feed(f.decoder, ids, LENGTH + 1) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "context of 23") != NULL);
    ids[1] = VOCAB;
    CHECK(tt_decoder_feed(f.decoder, ids, 2) == TT_ERR_ARG);
    ids[1] = -1;
    CHECK(tt_decoder_feed(f.decoder, ids, 2) == TT_ERR_ARG);
    CHECK(tt_decoder_position(f.decoder) == 0);
    fixture_close(&f);
    const subject images = {"lenet", ""};
    CHECK(fixture_open(&f, &images,
                       &(arrangement){"ref", TT_F32, TT_F32, 0, false}) ==
          TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "no language model") != NULL);
    fixture_close(&f);
}

// With every allocation failing in turn: an error or the right answer, no leak.
TEST(a_decoder_survives_missing_memory)
{
    const arrangement setup = {"ref", TT_F32, TT_F32, 0, false};
    int32_t ids[LENGTH];
    int n_failed = 0;
    make_text(ids);
    const int64_t live = tt_alloc_live();
    bool was_reached = true;
    for (int64_t k = 1; was_reached; k += 1 + k / 50) {
        fixture f;
        tt_alloc_fail_at(k);
        tt_status status = fixture_open(&f, &subjects[0], &setup);
        if (status == TT_OK)
            status = tt_decoder_feed(f.decoder, ids, LENGTH);
        was_reached = tt_alloc_count() >= k;
        tt_alloc_fail_at(0);
        CHECK(status == TT_OK || status == TT_ERR_NOMEM);
        n_failed += status != TT_OK;
        fixture_close(&f);
        CHECK(tt_alloc_live() == live);
    }
    CHECK(n_failed > 10);
}
