// fuzz_tar - archives of images: all headers, and the first images. As they are,
// and with the checksums of headers made right.

#include "data/source/source.h"
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, CHECKSUM = 148, MAGIC = 257 };

static void mend(uint8_t *data, size_t n)
{
    for (size_t at = 0; at + BLOCK <= n; at += BLOCK) {
        uint8_t *header = data + at;
        char text[8];
        unsigned sum = 0;
        if (memcmp(header + MAGIC, "ustar", 5) != 0)
            continue;
        memset(header + CHECKSUM, ' ', 8);
        for (int i = 0; i < BLOCK; i++)
            sum += header[i];
        snprintf(text, sizeof text, "%06o", sum);
        memcpy(header + CHECKSUM, text, 7);
    }
}

static void read_images(const uint8_t *data, size_t n)
{
    const tt_source_request request = {
        .path = tt_fuzz_file(data, n, ".tar"), .val = "", .tokenizer = ""};
    const tt_source_def *def = NULL;
    tt_source *source = NULL;
    tt_image image = {0};
    int32_t label = 0;
    if (tt_source_find("webdataset", &def) == TT_OK &&
        tt_source_open(def, &request, NULL, &source) == TT_OK)
        for (int64_t i = 0; i < source->n && i < 4; i++)
            (void)tt_source_read_image(source, i, &image, &label);
    tt_image_fini(&image);
    tt_source_close(source);
}

FUZZ(tar)
{
    read_images(data, n);
    uint8_t *copy = malloc(n + 1);
    if (copy == NULL)
        return;
    memcpy(copy, data, n);
    mend(copy, n);
    read_images(copy, n);
    free(copy);
}
