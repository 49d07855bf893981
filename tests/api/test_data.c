// Data from a program's own functions, and whole runs, through the public header.

#include "base/alloc.h"
#include "test.h"
#include "tutti/tutti.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

static void begin(void)
{
    snprintf(folder, sizeof folder, "/tmp/tutti-api-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
}

static void end(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(system(command) == 0);
}

static tutti_session *open_with(const char *const *settings)
{
    tutti_session *s = NULL;
    CHECK(tutti_create(&s) == TUTTI_OK);
    for (int i = 0; settings[i] != NULL; i += 2)
        CHECK(tutti_set(s, settings[i], settings[i + 1]) == TUTTI_OK);
    return s;
}

static void says(const char *text)
{
    CHECK_MSG(strstr(tutti_error(), text) != NULL, "\"%s\" lacks \"%s\"",
              tutti_error(), text);
}

// Images whose class is which quarter is bright.
static tutti_status quarter(void *user, int64_t index, float *pixels,
                            int32_t *label_out)
{
    atomic_int *calls = user;
    atomic_fetch_add(calls, 1);
    const int label = (int)(index % 4);
    for (int i = 0; i < 16; i++)
        pixels[i] = i / 8 * 2 + i % 4 / 2 == label ? 1 : 0;
    *label_out = label;
    return TUTTI_OK;
}

static tutti_status count_up(void *user, int64_t first, int64_t n, int32_t *out)
{
    (void)user;
    for (int64_t i = 0; i < n; i++)
        out[i] = (int32_t)((first + i) % 7);
    return TUTTI_OK;
}

static tutti_status train(tutti_session *s, tutti_train_result *result)
{
    CHECK(tutti_set(s, "run", folder) == TUTTI_OK);
    return tutti_train(s, NULL, result);
}

static const char *const mlp[] = {
    "model",     "mlp", "model.layers", "1",    "model.width", "16",
    "batch",     "8",   "data",         "mine", "train.steps", "40",
    "log.every", "5",   "threads",      "1",    "optim.lr",    "0.01",
    NULL};

TEST(api_data_from_a_callback_trains)
{
    static atomic_int calls;
    const tutti_source mine = {.name = "mine",
                               .doc = "quarters",
                               .kind = TUTTI_IMAGES,
                               .count = 100,
                               .val_count = 20,
                               .classes = 4,
                               .channels = 1,
                               .height = 4,
                               .width = 4,
                               .image = quarter,
                               .user = &calls};
    begin();
    CHECK_MSG(tutti_source_register(&mine) == TUTTI_OK, "%s", tutti_error());
    CHECK(tutti_source_register(&mine) == TUTTI_ERR_ARG);
    says("there is a source \"mine\" already");
    tutti_session *s = open_with(mlp);
    tutti_train_result result;
    CHECK_MSG(train(s, &result) == TUTTI_OK, "%s", tutti_error());
    CHECK(result.step == 40);
    CHECK_MSG(result.val_accuracy == 1 && result.val_loss < 0.5, "%g %g",
              result.val_accuracy, result.val_loss);
    CHECK(atomic_load(&calls) >= 40 * 8 + 20);
    tutti_destroy(s);
    s = open_with(mlp);
    CHECK(tutti_set(s, "data.path", "x") == TUTTI_OK);
    CHECK(train(s, &result) == TUTTI_ERR_ARG);
    says("leave data.path");
    tutti_destroy(s);
    end();
}

TEST(api_data_of_tokens_trains)
{
    static const char *const lm[] = {
        "model",       "gpt",    "model.layers",  "1",  "model.width", "16",
        "model.heads", "1",      "model.context", "6",  "batch",       "8",
        "data",        "sevens", "train.steps",   "60", "threads",     "1",
        "optim.lr",    "0.02",   "data.workers",  "2",  NULL};
    const tutti_source sevens = {.name = "sevens",
                                 .kind = TUTTI_TOKENS,
                                 .count = 500,
                                 .classes = 7,
                                 .tokens = count_up};
    begin();
    CHECK(tutti_source_register(&sevens) == TUTTI_OK);
    tutti_session *s = open_with(lm);
    tutti_train_result result;
    CHECK_MSG(train(s, &result) == TUTTI_OK, "%s", tutti_error());
    CHECK(result.step == 60);
    CHECK_MSG(result.val_loss < 1.0, "%g", result.val_loss); // of 1.95
    tutti_destroy(s);
    end();
}

static tutti_status broken(void *user, int64_t first, int64_t n, int32_t *out)
{
    memset(out, 0, (size_t)n * sizeof *out);
    if (first < 30)
        return TUTTI_OK;
    return user != NULL ? tutti_fail(TUTTI_ERR_IO, "the tape is torn")
                        : TUTTI_ERR_IO;
}

TEST(api_data_that_fails_says_why)
{
    static const char *const lm[] = {
        "model",       "gpt",  "model.layers",  "1",   "model.width", "8",
        "model.heads", "1",    "model.context", "6",   "batch",       "8",
        "data",        "torn", "train.steps",   "100", "threads",     "1",
        NULL};
    static int tape;
    tutti_source torn = {.name = "torn",
                         .kind = TUTTI_TOKENS,
                         .count = 500,
                         .classes = 7,
                         .tokens = broken,
                         .user = &tape};
    begin();
    CHECK(tutti_source_register(&torn) == TUTTI_OK);
    torn.name = "mute";
    torn.user = NULL;
    CHECK(tutti_source_register(&torn) == TUTTI_OK);
    tutti_session *s = open_with(lm);
    tutti_train_result result;
    CHECK(train(s, &result) == TUTTI_ERR_IO);
    says("the tape is torn");
    CHECK(tutti_set(s, "data", "mute") == TUTTI_OK);
    end();
    begin();
    CHECK(train(s, &result) == TUTTI_ERR_IO);
    says("mute could not give the tokens from");
    tutti_destroy(s);
    end();
}

TEST(api_data_is_checked_when_it_is_registered)
{
    tutti_source bad = {.kind = TUTTI_IMAGES, .count = 10};
    CHECK(tutti_source_register(&bad) == TUTTI_ERR_ARG);
    says("needs a name");
    bad.name = "bad";
    CHECK(tutti_source_register(&bad) == TUTTI_ERR_ARG);
    says("no function that gives its images");
    bad.image = quarter;
    CHECK(tutti_source_register(&bad) == TUTTI_ERR_ARG);
    says("images of 0 x 0 x 0");
    bad.channels = bad.height = bad.width = 4;
    bad.val_count = 10;
    CHECK(tutti_source_register(&bad) == TUTTI_ERR_ARG);
    says("10 samples, 10 of them for validation");
    CHECK(tt_alloc_live() == 0);
}
