// decode - finds the decoder.

#include "data/image/decode.h"

#include "data/format.h"

#include <string.h>
#include <strings.h>

static const tt_image_decoder *const all[] = {
    &tt__decoder_jpeg, &tt__decoder_png, &tt__decoder_bmp, &tt__decoder_gif,
    &tt__decoder_pnm};

static tt_status find(const uint8_t *bytes, int64_t n,
                      const tt_image_decoder **decoder_out)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i]->is_mine(bytes, n)) {
            *decoder_out = all[i];
            return TT_OK;
        }
    if (n == 0)
        return tt_fail(TT_ERR_ARG, "the image is empty");
    const char *name = tt_format_name(bytes, n);
    if (name != NULL)
        return tt_fail(TT_ERR_ARG,
                       "it is no image that can be read: its format is %s; "
                       "make a PNG or JPEG of it",
                       name);
    return tt_fail(TT_ERR_ARG,
                   "it is no image that can be read: its %lld bytes begin like "
                   "no JPEG, PNG, BMP, GIF or PPM",
                   (long long)n);
}

tt_status tt_decode(const uint8_t *bytes, int64_t n, tt_image *out)
{
    const tt_image_decoder *decoder = NULL;
    TT_TRY(find(bytes, n, &decoder));
    return decoder->decode(bytes, n, out);
}

tt_status tt_decode_size(const uint8_t *bytes, int64_t n, tt_image *out)
{
    const tt_image_decoder *decoder = NULL;
    TT_TRY(find(bytes, n, &decoder));
    return decoder->size(bytes, n, out);
}

static bool ends_with_one(const char *path, const char *const *ends)
{
    const char *dot = strrchr(path, '.');
    for (; dot != NULL && *ends != NULL; ends++)
        if (strcasecmp(dot + 1, *ends) == 0)
            return true;
    return false;
}

bool tt_decode_knows(const char *path)
{
    static const char *const ends[] = {"jpg", "jpeg", "jpe", "jfif",
                                       "png", "bmp",  "gif", "ppm",
                                       "pgm", "pbm",  "pnm", NULL};
    return ends_with_one(path, ends);
}

bool tt_decode_is_foreign(const char *path)
{
    static const char *const ends[] = {"webp", "tif", "tiff", "heic", "heif",
                                       "avif", "jxl", "jp2",  "j2k",  "tga",
                                       "ico",  "svg", "psd",  "exr",  "hdr",
                                       "dib",  "pcx", "xbm",  "xpm",  NULL};
    return ends_with_one(path, ends);
}
