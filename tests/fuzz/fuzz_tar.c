// fuzz_tar - archives of images: all headers, and the first images.

#include "data/source.h"
#include "fuzz/fuzz.h"

FUZZ(tar)
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
