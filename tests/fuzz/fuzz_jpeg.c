// fuzz_jpeg - JPEG images.

#include "data/image/decode.h"
#include "fuzz/fuzz.h"

FUZZ(jpeg)
{
    tt_image image = {0};
    if (tt_decode(data, (int64_t)n, &image) == TT_OK) {
        const volatile uint8_t *pixel = image.u8; // all of them are there
        const int64_t end = image.channels * image.height * image.width;
        (void)(pixel[0] + pixel[end - 1]);
    }
    tt_image_fini(&image);
}
