// source - the way into every source, and the memory of one image.

#include "data/source.h"

#include "base/alloc.h"

#include <math.h>

tt_status tt_image_reserve(tt_image *image, int64_t channels, int64_t height,
                           int64_t width, bool is_float)
{
    int64_t bytes = is_float ? (int64_t)sizeof(float) : 1;
    if (channels < 1 || height < 1 || width < 1 ||
        __builtin_mul_overflow(bytes, channels, &bytes) ||
        __builtin_mul_overflow(bytes, height, &bytes) ||
        __builtin_mul_overflow(bytes, width, &bytes))
        return tt_fail(TT_ERR_ARG, "an image of %lld x %lld x %lld is no image",
                       (long long)channels, (long long)height,
                       (long long)width);
    if (bytes > image->capacity) {
        tt_image_fini(image);
        image->memory = tt_alloc(bytes);
        if (image->memory == NULL)
            return tt_fail(TT_ERR_NOMEM, "no memory for an image of %lld bytes",
                           (long long)bytes);
        image->capacity = bytes;
    }
    image->channels = channels;
    image->height = height;
    image->width = width;
    image->is_float = is_float;
    image->u8 = is_float ? NULL : image->memory;
    image->f32 = is_float ? image->memory : NULL;
    return TT_OK;
}

void tt_image_fini(tt_image *image)
{
    tt_free(image->memory);
    *image = (tt_image){0};
}

tt_status tt_source_open(const tt_source_def *def,
                         const tt_source_request *request, const void *params,
                         tt_source **source_out)
{
    tt_source *source = NULL;
    TT_TRY(def->open(request, params, &source));
    if (source != NULL && source->n < 1) {
        tt_source_close(source);
        source = NULL;
    }
    if (source == NULL && request->split == TT_SPLIT_TRAIN)
        return tt_fail(TT_ERR_ARG, "%s: there is nothing to train on",
                       request->path);
    *source_out = source;
    return TT_OK;
}

void tt_source_close(tt_source *source)
{
    if (source != NULL)
        source->def->close(source);
}

tt_status tt_source_read_tokens(const tt_source *source, int64_t first,
                                int64_t n, int32_t *out)
{
    if (source->kind != TT_DATA_TOKENS)
        return tt_fail(TT_ERR_STATE, "%s has images, not tokens",
                       source->def->name);
    if (first < 0 || n < 0 || n > source->n || first > source->n - n)
        return tt_fail(TT_ERR_STATE,
                       "%s: tokens %lld to %lld are not among %lld",
                       source->def->name, (long long)first,
                       (long long)(first + n), (long long)source->n);
    return source->def->tokens(source, first, n, out);
}

tt_status tt_source_read_image(const tt_source *source, int64_t index,
                               tt_image *out, int32_t *label_out)
{
    if (source->kind != TT_DATA_IMAGES)
        return tt_fail(TT_ERR_STATE, "%s has tokens, not images",
                       source->def->name);
    if (index < 0 || index >= source->n)
        return tt_fail(TT_ERR_STATE, "%s: image %lld is not among %lld",
                       source->def->name, (long long)index,
                       (long long)source->n);
    return source->def->image(source, index, out, label_out);
}

void tt_source_part(const tt_source_request *request, int64_t n,
                    int64_t *first_out, int64_t *n_out)
{
    const int64_t n_train = (int64_t)floor((1 - request->holdout) * (double)n);
    const bool is_train = request->split == TT_SPLIT_TRAIN;
    *first_out = is_train ? 0 : n_train;
    *n_out = is_train ? n_train : n - n_train;
}
