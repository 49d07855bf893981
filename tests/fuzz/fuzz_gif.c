// fuzz_gif - images: all pixels of what decodes are there.

#include "data/image/decode.h"
#include "fuzz/fuzz.h"

FUZZ(gif)
{
    tt_image image = {0};
    (void)tt_decode_size(data, (int64_t)n, &image);
    image = (tt_image){0};
    if (tt_decode(data, (int64_t)n, &image) == TT_OK) {
        const volatile uint8_t *pixel = image.u8;
        const int64_t end = image.channels * image.height * image.width;
        (void)(pixel[0] + pixel[end - 1]);
    }
    tt_image_fini(&image);
}
