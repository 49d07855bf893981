// source.h - opens a file as a source of data and reads all there is.

#ifndef TT_TESTS_FUZZ_SOURCE_H
#define TT_TESTS_FUZZ_SOURCE_H

#include "base/alloc.h"
#include "data/source/source.h"
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TT_FUZZ_SAMPLES = 200 };

static inline void tt_fuzz_read(const tt_source *source)
{
    tt_image image = {0};
    int32_t label = 0, id[64];
    for (int64_t i = 0; i < source->n && i < TT_FUZZ_SAMPLES; i++)
        if (source->kind == TT_DATA_IMAGES)
            (void)tt_source_read_image(source, i, &image, &label);
        else
            (void)tt_source_read_tokens(
                source, i, source->n - i < 64 ? source->n - i : 64, id);
    if (source->kind == TT_DATA_IMAGES) // the last one too
        (void)tt_source_read_image(source, source->n - 1, &image, &label);
    else
        (void)tt_source_read_tokens(source, source->n - 1, 1, id);
    tt_image_fini(&image);
}

// Both splits of `path`, with options as text.
static inline void tt_fuzz_source(const char *name, const char *path,
                                  const char *options)
{
    const tt_source_def *def = NULL;
    tt_arena *arena = tt_arena_create();
    if (arena == NULL || tt_source_find(name, &def) != TT_OK)
        abort();
    void *params = tt_arena_alloc(arena, def->params_bytes + 1);
    if (params == NULL ||
        tt_opt_defaults(def->options, params, arena) != TT_OK ||
        tt_opt_parse(def->options, params, options, arena) != TT_OK)
        abort();
    for (int split = 0; split < 2; split++) {
        const tt_source_request request = {.split = (tt_data_split)split,
                                           .path = path,
                                           .val = "",
                                           .holdout = 0.25,
                                           .tokenizer = ""};
        tt_source *source = NULL;
        if (tt_source_open(def, &request, params, &source) == TT_OK &&
            source != NULL)
            tt_fuzz_read(source);
        tt_source_close(source);
    }
    tt_arena_destroy(arena);
}

// Writes `name` beside `path`, which the caller removes.
static inline void tt_fuzz_beside(const char *path, const char *name,
                                  const void *bytes, size_t n, char out[256])
{
    const char *slash = strrchr(path, '/');
    snprintf(out, 256, "%.*s/%s", (int)(slash - path), path, name);
    FILE *file = fopen(out, "wb");
    if (file == NULL || (n > 0 && fwrite(bytes, n, 1, file) != 1) ||
        fclose(file) != 0)
        abort();
}

#endif
