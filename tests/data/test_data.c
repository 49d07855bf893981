// From settings to sources; synthetic data.

#include "base/rng.h"
#include "base/settings/settings.h"
#include "data/order.h"
#include "data/shelf.h"

#include <stdlib.h>
#include <string.h>

TEST(data_names_of_options_are_given_once)
{
    int n = 0;
    const tt_source_def *const *all = tt_source_all(&n);
    tt_arena *arena = tt_arena_create();
    CHECK(n > 5 && arena != NULL);
    for (int i = 0; i < n; i++) {
        const tt_opt *table = NULL;
        CHECK_OK(tt_data_known(all[i]->name, arena, &table));
        CHECK(all[i]->doc[0] != '\0');
        for (const tt_opt *a = table; a->name != NULL; a++) {
            CHECK_MSG(a->doc != NULL, "%s: %s", all[i]->name, a->name);
            for (const tt_opt *b = a + 1; b->name != NULL; b++)
                CHECK_MSG(strcmp(a->name, b->name) != 0, "%s: %s", all[i]->name,
                          a->name);
        }
    }
    tt_arena_destroy(arena);
}

TEST(data_refuses_what_is_unknown)
{
    tt_shelf_refuses("data=txt", "unknown data \"txt\"; did you mean text?");
    tt_shelf_refuses("data=xyzzy", "tutti list sources");
    tt_shelf_refuses("", "data is not set");
    tt_shelf_refuses("data=synthetic data.sise=3",
                     "test: data.sise: unknown option; did you mean \"size\"?");
    tt_shelf_refuses("data=text data.size=3", "data.size: unknown option");
    tt_shelf_refuses("data=synthetic data.holdout=1.5", "must be at most");
    tt_shelf_refuses("data=synthetic data.workers=0", "data.workers");
    tt_shelf_refuses("data=synthetic data.path=my.txt",
                     "data=text data.path=my.txt");
}

TEST(data_reads_all_its_options)
{
    tt_data *data = tt_shelf_open(
        "data=synthetic data.size=500 data.classes=7 data.workers=3 "
        "data.ahead=2 data.shuffle=no data.flip=yes data.mean=0.5 "
        "data.holdout=0.2");
    CHECK(strcmp(data->options.source, "synthetic") == 0);
    CHECK(data->options.workers == 3 && data->options.ahead == 2);
    CHECK(!data->options.shuffle && data->transform.flip);
    CHECK(data->transform.mean.n == 1 && data->transform.mean.v[0] == 0.5);
    CHECK(data->train->n == 500 && data->train->classes == 7);
    CHECK(data->val->n == 100);
    tt_data_close(data);
    tt_shelf_starves("data=synthetic data.kind=images");
}

TEST(data_may_be_opened_for_validation_alone)
{
    tt_arena *arena = tt_arena_create();
    tt_settings set = {0};
    const tt_source_request request = {.seed = 1, .seq = 8};
    tt_data *data = NULL;
    CHECK(arena != NULL);
    CHECK_OK(tt_settings_assign(&set, "data=synthetic", "test", arena));
    CHECK_OK(tt_data_open(&set, &request, false, &data));
    CHECK(data->train == NULL && data->val->n == 10000);
    CHECK(!data->transform.is_train);
    tt_data_close(data);
    CHECK_OK(tt_settings_assign(&set, "data.holdout=0", "test", arena));
    CHECK(tt_data_open(&set, &request, false, &data) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "no validation data") != NULL);
    CHECK_OK(tt_settings_check_unused(&set, NULL, 0));
    tt_arena_destroy(arena);
}

// ---- synthetic ---------------------------------------------------------------

TEST(synthetic_tokens_follow_from_two_before)
{
    enum { N = 50000 };
    static int32_t id[N];
    tt_data *data = tt_shelf_open("data=synthetic data.classes=30");
    CHECK_OK(tt_source_read_tokens(data->train, 0, N, id));
    // The likeliest token after each pair: how often is it right?
    static int count[30][30][30];
    for (int i = 2; i < N; i++) {
        CHECK(id[i] >= 0 && id[i] < 30);
        count[id[i - 2]][id[i - 1]][id[i]]++;
    }
    int right = 0, most = 0, single[30] = {0};
    for (int a = 0; a < 30; a++)
        for (int b = 0; b < 30; b++) {
            int best = 0;
            for (int c = 0; c < 30; c++) {
                best = count[a][b][c] > best ? count[a][b][c] : best;
                single[c] += count[a][b][c];
            }
            right += best;
        }
    for (int c = 0; c < 30; c++)
        most = single[c] > most ? single[c] : most;
    CHECK_MSG(right > N * 8 / 10, "%d", right); // 0.9, and block starts
    CHECK_MSG(most > N / 15 && most < N / 2, "%d", most);
    // The same from anywhere, and the same pattern but other tokens in val.
    int32_t part[100], val[100];
    CHECK_OK(tt_source_read_tokens(data->train, 777, 100, part));
    CHECK(memcmp(part, id + 777, sizeof part) == 0);
    CHECK_OK(tt_source_read_tokens(data->val, 0, 100, val));
    CHECK(memcmp(val, id, sizeof val) != 0);
    int known = 0;
    for (int i = 2; i < 64; i++)
        known += count[val[i - 2]][val[i - 1]][val[i]] > 20;
    CHECK_MSG(known > 40, "%d", known);
    tt_data_close(data);
}

// The mean of a class in training is nearest to its images in validation.
TEST(synthetic_images_show_their_class)
{
    enum { CLASSES = 10, PIXELS = 12 * 12 * 3 };
    static double mean[CLASSES][PIXELS];
    int count[CLASSES] = {0}, right = 0;
    tt_image image = {0};
    int32_t label = 0;
    tt_data *data =
        tt_shelf_open("data=synthetic data.kind=images "
                      "data.image=12 data.channels=3 data.size=300");
    CHECK(data->train->n == 300 && data->val->n == 30);
    CHECK(data->transform.image == 12 && data->transform.channels == 3);
    for (int64_t i = 0; i < 300; i++) {
        CHECK_OK(tt_source_read_image(data->train, i, &image, &label));
        count[label]++;
        for (int k = 0; k < PIXELS; k++)
            mean[label][k] += image.u8[k];
    }
    for (int64_t i = 0; i < 30; i++) {
        CHECK_OK(tt_source_read_image(data->val, i, &image, &label));
        int best = 0;
        double least = 1e30;
        for (int c = 0; c < CLASSES; c++) {
            double sum = 0;
            for (int k = 0; k < PIXELS; k++)
                sum += pow(mean[c][k] / count[c] - image.u8[k], 2);
            if (sum < least) {
                least = sum;
                best = c;
            }
        }
        right += best == label;
    }
    CHECK(right == 30);
    tt_image_fini(&image);
    tt_data_close(data);
}

TEST(synthetic_data_may_be_tiny)
{
    tt_data *data = tt_shelf_open("data=synthetic data.kind=images data.size=1 "
                                  "data.image=1 data.holdout=0");
    CHECK(data->train->n == 1 && data->val == NULL);
    CHECK(tt_shelf_label(data->train, 0) == 0);
    tt_data_close(data);
    data = tt_shelf_open("data=synthetic data.size=50 data.classes=1");
    int32_t id[50];
    CHECK_OK(tt_source_read_tokens(data->train, 0, 50, id));
    CHECK(id[0] == 0 && id[49] == 0);
    tt_data_close(data);
}
