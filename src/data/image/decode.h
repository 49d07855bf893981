// decode - the bytes of an image file to pixels: JPEG, PNG, BMP, GIF (its first
// picture) and PBM, PGM, PPM. Which it is, the bytes say.
//
// Gray stays one channel, all else becomes RGB: CMYK and YCCK as Adobe writes them
// (inverted), palettes looked up, 16 bits cut to 8, alpha dropped; colour profiles,
// gamma and orientation are not applied. Pixels are those of Pillow. A damaged or
// truncated file is an error, also where a viewer would show a part of it.
//
// Decoding takes at most TT_DECODE_BYTES: a JPEG that needs more is decoded at
// 1/2, 1/4 or 1/8 of its size, what still does not fit is refused.

#ifndef TT_DATA_IMAGE_DECODE_H
#define TT_DATA_IMAGE_DECODE_H

#include "data/source/source.h"

enum { TT_DECODE_BYTES = 60 << 20 };

typedef struct tt_image_decoder {
    const char *name;
    bool (*is_mine)(const uint8_t *bytes, int64_t n);
    // Sets channels, height and width of `out` alone.
    tt_status (*size)(const uint8_t *bytes, int64_t n, tt_image *out);
    tt_status (*decode)(const uint8_t *bytes, int64_t n, tt_image *out);
} tt_image_decoder;
extern const tt_image_decoder tt__decoder_jpeg, tt__decoder_png,
    tt__decoder_bmp, tt__decoder_gif, tt__decoder_pnm;

// Messages name no file: put it before them with tt_fail_context.
tt_status tt_decode(const uint8_t *bytes, int64_t n, tt_image *out);

// Channels, height and width from the header alone; `out` needs no memory.
tt_status tt_decode_size(const uint8_t *bytes, int64_t n, tt_image *out);

// Whether a file of this name is taken for an image that can be decoded: one of
// TT_DECODE_NAMES.
#define TT_DECODE_NAMES                                                        \
    "jpg, jpeg, jpe, jfif, png, bmp, gif, ppm, pgm, pbm, pnm"
bool tt_decode_knows(const char *path);

// Whether it is taken for an image of another kind: webp, tif, ...
bool tt_decode_is_foreign(const char *path);

#endif
