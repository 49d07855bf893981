// How much a model reads at once, before its settings are all read: a sliding window that
// is shorter than the context counts.

#include "test.h"
#include "weights/model_folder.h"

static int64_t longest(const char *const *text)
{
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    for (; *text != NULL; text++)
        CHECK_OK(tt_settings_assign(&settings, *text, "test", arena));
    const int64_t n = tt_model_folder_longest(&settings);
    tt_arena_destroy(arena);
    return n;
}

TEST(a_model_reads_the_least_of_its_limits)
{
    CHECK(longest((const char *[]){"model=llama", NULL}) == 0);
    CHECK(longest((const char *[]){"model.context=32768", NULL}) == 32768);
    CHECK(longest((const char *[]){"model.context=32768", "model.window=4096",
                                   NULL}) == 4096);
    CHECK(longest((const char *[]){"model.context=32768", "model.window=0",
                                   NULL}) == 32768);
    CHECK(longest((const char *[]){"model.window=4096", "seq=512", NULL}) ==
          512);
    CHECK(longest((const char *[]){"model.context=many", "seq=64", NULL}) ==
          64);
}
