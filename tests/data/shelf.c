// shelf - files for tests of sources.

#include "data/shelf.h"

#include "base/alloc.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char folder[64];

void tt_shelf_begin(void)
{
    snprintf(folder, sizeof folder, "/tmp/tutti-data-XXXXXX");
    CHECK(mkdtemp(folder) != NULL);
    CHECK(chdir(folder) == 0);
}

void tt_shelf_end(void)
{
    char command[128];
    CHECK(chdir("/") == 0);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(system(command) == 0);
    CHECK(tt_alloc_live() == 0);
}

void tt_shelf_write(const char *name, const void *bytes, int64_t n)
{
    FILE *file = fopen(name, "wb");
    CHECK(file != NULL);
    CHECK(n == 0 || fwrite(bytes, (size_t)n, 1, file) == 1);
    CHECK(fclose(file) == 0);
}

void tt_shelf_text(const char *name, const char *text)
{
    tt_shelf_write(name, text, (int64_t)strlen(text));
}

void tt_shelf_gzip(const char *name, const void *bytes, int64_t n)
{
    gzFile file = gzopen(name, "wb");
    CHECK(file != NULL);
    CHECK(gzwrite(file, bytes, (unsigned)n) == n);
    CHECK(gzclose(file) == Z_OK);
}

static tt_status try_open(const char *settings, tt_data **data_out)
{
    char text[1024];
    tt_settings set = {0};
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return TT_ERR_NOMEM;
    snprintf(text, sizeof text, "%s", settings);
    tt_status status = TT_OK;
    char *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest);
         word != NULL && status == TT_OK; word = strtok_r(NULL, " ", &rest))
        status = tt_settings_assign(&set, word, "test", arena);
    const tt_source_request request = {.seed = 1, .seq = 4};
    if (status == TT_OK)
        status = tt_data_open(&set, &request, true, data_out);
    tt_arena_destroy(arena);
    return status;
}

tt_data *tt_shelf_open(const char *settings)
{
    tt_data *data = NULL;
    CHECK_OK(try_open(settings, &data));
    return data;
}

void tt_shelf_refuses(const char *settings, const char *says)
{
    tt_data *data = NULL;
    const tt_status status = try_open(settings, &data);
    CHECK_MSG(status != TT_OK, "%s was opened", settings);
    CHECK_MSG(strstr(tt_error_message(), says) != NULL, "\"%s\" lacks \"%s\"",
              tt_error_message(), says);
    CHECK(tt_alloc_live() == 0);
}

void tt_shelf_starves(const char *settings)
{
    for (int64_t k = 1;; k++) {
        tt_data *data = NULL;
        CHECK(k < 1000);
        tt_alloc_fail_at(k);
        const tt_status status = try_open(settings, &data);
        const bool is_through = tt_alloc_count() < k;
        tt_alloc_fail_at(0);
        CHECK_MSG(status == (is_through ? TT_OK : TT_ERR_NOMEM),
                  "allocation %lld: %s", (long long)k, tt_error_message());
        tt_data_close(data);
        CHECK(tt_alloc_live() == 0);
        if (is_through)
            return;
    }
}

void tt_shelf_tokens(const tt_source *source, const int32_t *want, int64_t n)
{
    int32_t got[64];
    CHECK(source != NULL && source->kind == TT_DATA_TOKENS);
    CHECK_MSG(source->n == n, "%lld tokens", (long long)source->n);
    for (int64_t first = 0; first < n; first++) // from everywhere to everywhere
        for (int64_t k = 0; first + k <= n && k <= 64; k++) {
            CHECK_OK(tt_source_read_tokens(source, first, k, got));
            for (int64_t i = 0; i < k; i++)
                CHECK_MSG(got[i] == want[first + i], "token %lld is %d",
                          (long long)(first + i), got[i]);
        }
    CHECK(tt_source_read_tokens(source, 1, n, got) == TT_ERR_STATE);
}

int tt_shelf_label(const tt_source *source, int64_t index)
{
    tt_image image = {0};
    int32_t label = -1;
    CHECK_OK(tt_source_read_image(source, index, &image, &label));
    tt_image_fini(&image);
    return label;
}

float tt_shelf_pixel(const tt_source *source, int64_t index, int64_t at)
{
    tt_image image = {0};
    int32_t label = -1;
    CHECK_OK(tt_source_read_image(source, index, &image, &label));
    CHECK(at < image.channels * image.height * image.width);
    const float value = image.is_float ? image.f32[at] : (float)image.u8[at];
    tt_image_fini(&image);
    return value;
}
