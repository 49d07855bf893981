// decode - finds the decoder.

#include "data/decode.h"

#include <string.h>
#include <strings.h>

static const tt_decoder *const all[] = {&tt__decoder_jpeg, &tt__decoder_png};

static tt_status find(const uint8_t *bytes, int64_t n,
                      const tt_decoder **decoder_out)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i]->is_mine(bytes, n)) {
            *decoder_out = all[i];
            return TT_OK;
        }
    if (n == 0)
        return tt_fail(TT_ERR_ARG, "the image is empty");
    return tt_fail(TT_ERR_ARG,
                   "the image is neither JPEG nor PNG: its %lld "
                   "bytes begin like neither",
                   (long long)n);
}

tt_status tt_decode(const uint8_t *bytes, int64_t n, tt_image *out)
{
    const tt_decoder *decoder = NULL;
    TT_TRY(find(bytes, n, &decoder));
    return decoder->decode(bytes, n, out);
}

tt_status tt_decode_size(const uint8_t *bytes, int64_t n, tt_image *out)
{
    const tt_decoder *decoder = NULL;
    TT_TRY(find(bytes, n, &decoder));
    return decoder->size(bytes, n, out);
}

bool tt_decode_knows(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot != NULL &&
           (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 ||
            strcasecmp(dot, ".png") == 0);
}
