// fuzz_idx - images; their labels are as many as the images say they are.

#include "fuzz/source.h"

FUZZ(idx)
{
    uint8_t labels[8 + 4096] = {0, 0, 8, 1};
    char path[256], option[300];
    size_t count = 0;
    if (n >= 8) {
        memcpy(labels + 4, data + 4, 4);
        count = (size_t)labels[6] << 8 | labels[7];
    }
    if (count > 4096)
        count = 4096;
    const char *images = tt_fuzz_file(data, n, "");
    tt_fuzz_beside(images, "labels", labels, 8 + count, path);
    snprintf(option, sizeof option, "labels=%s", path);
    tt_fuzz_source("idx", images, option);
    tt_fuzz_source("idx", images, "labels=/dev/null");
    (void)unlink(path);
}
