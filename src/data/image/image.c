// image - the memory of one image, used again for the next.

#include "base/alloc.h"
#include "data/source/source.h"

tt_status tt_image_reserve(tt_image *image, int64_t channels, int64_t height,
                           int64_t width, bool is_float)
{
    int64_t bytes = is_float ? (int64_t)sizeof(float) : 1;
    if (channels < 1 || height < 1 || width < 1 ||
        __builtin_mul_overflow(bytes, channels, &bytes) ||
        __builtin_mul_overflow(bytes, height, &bytes) ||
        __builtin_mul_overflow(bytes, width, &bytes))
        return tt_fail(TT_ERR_ARG,
                       "an image of %lld x %lld pixels with %lld channels "
                       "cannot be",
                       (long long)width, (long long)height,
                       (long long)channels);
    if (bytes > image->capacity) {
        tt_image_fini(image); // what it held is not wanted
        image->memory = tt_alloc(bytes);
        if (image->memory == NULL)
            return tt_fail(TT_ERR_NOMEM,
                           "there is no memory for an image of %lld bytes",
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
