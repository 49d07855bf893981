// Decoding: the pixels that Pillow finds, in the files that fuzzing starts from;
// and what is wrong with the others.

#include "base/alloc.h"
#include "base/rng.h"
#include "data/image/decode.h"
#include "test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct golden {
    const char *file;
    int64_t channels, height, width;
    uint64_t hash; // of Pillow's pixels
} golden;

static const golden goldens[] = {
    {"bmp/rgb24", 3, 5, 7, 0x5cb8eb68ca351902},
    {"bmp/gray8", 1, 6, 5, 0x570b8812dd4b0913},
    {"bmp/bits1", 1, 9, 13, 0xee93591d882209ea},
    {"bmp/palette8", 3, 8, 9, 0xfe4c4a4ddd0e5721},
    {"bmp/rgba32", 3, 5, 6, 0x71bb42e2d65a5649},
    {"bmp/palette4", 3, 6, 7, 0x64c5d7be4847c368},
    {"bmp/down16", 3, 6, 7, 0xe4e2382220955401},
    {"bmp/mask565", 3, 6, 7, 0x288f02e2f1de9227},
    {"bmp/os2", 3, 6, 5, 0x9556b62d273d154a},
    {"gif/interlaced", 3, 20, 23, 0xbcfc01333ee283e1},
    {"gif/plain", 3, 20, 23, 0xbcfc01333ee283e1},
    {"gif/gray", 1, 7, 9, 0x5f74af0c971f9190},
    {"gif/smooth", 3, 60, 70, 0x704b37477d47f9bc},
    {"gif/long", 1, 130, 140, 0x060037ab4944c827},
    {"gif/moving", 3, 8, 8, 0x14c7d53c8514bf77},
    {"gif/transparent", 3, 20, 23, 0xbcfc01333ee283e1},
    {"gif/part", 3, 25, 30, 0x38899314024058b0},
    {"pnm/p6", 3, 5, 7, 0x4fd08a2cb303db2a},
    {"pnm/p5", 1, 5, 7, 0x5169770f8c7a4395},
    {"pnm/p4", 1, 5, 13, 0xaa5a53b08125531a},
    {"pnm/p2", 1, 2, 3, 0x346cddcb3fc2d135},
    {"pnm/p1", 1, 2, 4, 0x2fa18fdba22ecc85},
    {"pnm/p3", 3, 2, 2, 0x32121f38137e48a4},
    {"pnm/p6-most", 3, 2, 3, 0x972c9e7d2bc28642},
    {"pnm/p5-wide", 1, 2, 3, 0x3839cc29a3077749},
    {"jpeg/cmyk", 3, 10, 12, 0x8bfa6279677137f0},
    {"jpeg/gray", 1, 11, 19, 0xeb29bb96eb94103b},
    {"jpeg/progressive", 3, 16, 24, 0xcf65c957ffc86746},
    {"jpeg/restart", 3, 24, 24, 0x61c552634da17367},
    {"jpeg/rgb-420", 3, 13, 17, 0x58f8ad176abf931e},
    {"jpeg/rgb-444", 3, 9, 8, 0xc22d66aa4dd804f0},
    {"jpeg/ycck", 3, 12, 14, 0xd0d37a87b3d5cce2},
    {"jpeg/ycck-progressive", 3, 12, 14, 0xd0d37a87b3d5cce2},
    {"png/gray-alpha8", 1, 7, 9, 0x8108b0d3497cce50},
    {"png/gray1", 1, 7, 9, 0x62fccfeb55f831cf},
    {"png/gray16", 1, 7, 9, 0x301adcba5a70db4b},
    {"png/gray2", 1, 7, 9, 0xc2d5f6a4ae0e6edb},
    {"png/gray4", 1, 7, 9, 0x6b7c622a113458dc},
    {"png/gray4-interlaced", 1, 5, 3, 0x706aa5e79df3da53},
    {"png/gray8", 1, 7, 9, 0x7850a7bef7140262},
    {"png/gray8-transparent", 1, 4, 4, 0x307b6c228f4d12d7},
    {"png/palette1", 3, 6, 11, 0x080d20918fab1c37},
    {"png/palette2", 3, 6, 11, 0xd710892ecf33bb55},
    {"png/palette2-interlaced", 3, 8, 9, 0xdfa51bafacfd96d1},
    {"png/palette4", 3, 6, 11, 0x34191541d755f6e4},
    {"png/palette8", 3, 6, 11, 0x55c35659753fac39},
    {"png/rgb16", 3, 7, 9, 0xf477c659dad57e92},
    {"png/rgb8", 3, 7, 9, 0x3ecbeccf825f3f65},
    {"png/rgb8-interlaced", 3, 9, 10, 0xa0f2f88fb0999293},
    {"png/rgb8-text", 3, 4, 4, 0xbd4c9e66719d6f47},
    {"png/rgba16", 3, 7, 9, 0xe848c576efa792ae},
    {"png/rgba8", 3, 7, 9, 0x15493b5eea4f0a55},
};
enum { N_GOLDENS = sizeof goldens / sizeof goldens[0], MAX_BYTES = 16384 };

static uint8_t bytes[MAX_BYTES];

static int64_t read_file(const char *name)
{
    char path[1024];
    snprintf(path, sizeof path, "tests/fuzz/corpus/%s", name);
    FILE *file = fopen(path, "rb");
    CHECK_MSG(file != NULL, "there is no %s", path);
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return (int64_t)n;
}

TEST(images_decode_to_the_pixels_of_pillow)
{
    tt_image image = {0};
    for (int i = 0; i < N_GOLDENS; i++) {
        const golden *g = &goldens[i];
        const int64_t n = read_file(g->file);
        CHECK_OK(tt_decode(bytes, n, &image));
        CHECK_MSG(image.channels == g->channels && image.height == g->height &&
                      image.width == g->width && !image.is_float,
                  "%s", g->file);
        const int64_t size = g->channels * g->height * g->width;
        CHECK_MSG(tt_hash(image.u8, size) == g->hash, "%s", g->file);
    }
    tt_image_fini(&image);
    CHECK(tt_alloc_live() == 0);
}

TEST(size_of_an_image_is_read_without_its_pixels)
{
    for (int i = 0; i < N_GOLDENS; i++) {
        const golden *g = &goldens[i];
        tt_image image = {0};
        CHECK_OK(tt_decode_size(bytes, read_file(g->file), &image));
        CHECK_MSG(image.channels == g->channels && image.height == g->height &&
                      image.width == g->width && image.memory == NULL,
                  "%s", g->file);
    }
    CHECK(tt_alloc_live() == 0);
}

static int n_bad;

static void check_bad(const char *folder)
{
    char path[512];
    snprintf(path, sizeof path, "tests/fuzz/corpus/%s", folder);
    DIR *dir = opendir(path);
    CHECK(dir != NULL);
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        if (strncmp(e->d_name, "bad", 3) != 0)
            continue;
        tt_image image = {0};
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        CHECK_MSG(tt_decode(bytes, read_file(path), &image) == TT_ERR_ARG,
                  "%s decodes", path);
        CHECK(strlen(tt_error_message()) > 20);
        tt_image_fini(&image);
        n_bad++;
    }
    closedir(dir);
}

TEST(damaged_images_are_refused_in_silence)
{
    char name[] = "/tmp/tutti-decode-XXXXXX";
    struct stat st;
    const int fd = mkstemp(name);
    CHECK(fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    check_bad("jpeg");
    check_bad("png");
    check_bad("bmp");
    check_bad("gif");
    check_bad("pnm");
    CHECK(n_bad > 15);
    CHECK(fstat(fd, &st) == 0 && st.st_size == 0);
    close(fd);
    unlink(name);
    CHECK(tt_alloc_live() == 0);
}

TEST(every_truncation_of_an_image_is_refused)
{
    static const char *const files[] = {"jpeg/rgb-420", "jpeg/progressive",
                                        "png/rgb8-interlaced", "png/palette8"};
    tt_image image = {0};
    for (int i = 0; i < 4; i++) {
        const int64_t n = read_file(files[i]);
        for (int64_t k = 0; k < n; k++)
            CHECK_MSG(tt_decode(bytes, k, &image) == TT_ERR_ARG,
                      "%s: %lld bytes decode", files[i], (long long)k);
    }
    tt_image_fini(&image);
}

// Height and width of a baseline JPEG come after its marker C0.
static void set_jpeg_size(int64_t n, int height, int width)
{
    int64_t i = 0;
    while (i + 9 < n && !(bytes[i] == 0xFF && bytes[i + 1] == 0xC0))
        i++;
    bytes[i + 5] = (uint8_t)(height >> 8);
    bytes[i + 6] = (uint8_t)height;
    bytes[i + 7] = (uint8_t)(width >> 8);
    bytes[i + 8] = (uint8_t)width;
}

TEST(large_jpegs_are_halved_until_they_fit)
{
    const int64_t n = read_file("jpeg/rgb-420");
    tt_image image = {0};
    set_jpeg_size(n, 4000, 5000);
    CHECK_OK(tt_decode_size(bytes, n, &image));
    CHECK(image.height == 4000 && image.width == 5000);
    set_jpeg_size(n, 4000, 6001);
    CHECK_OK(tt_decode_size(bytes, n, &image));
    CHECK(image.height == 2000 && image.width == 3001);
    set_jpeg_size(n, 30000, 20000);
    CHECK_OK(tt_decode_size(bytes, n, &image));
    CHECK(image.height == 3750 && image.width == 2500);
    set_jpeg_size(n, 60000, 60000);
    CHECK(tt_decode_size(bytes, n, &image) == TT_ERR_ARG);
}

TEST(what_an_image_is_decides_not_its_name)
{
    tt_image image = {0};
    CHECK(tt_decode(bytes, 0, &image) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "empty") != NULL);
    CHECK(tt_decode_knows("a/b.JPG") && tt_decode_knows("x.y.jpeg") &&
          tt_decode_knows("x.Png"));
    CHECK(!tt_decode_knows("jpg") && !tt_decode_knows("x.jpg.txt") &&
          !tt_decode_knows("x.webp"));
}

TEST(decoding_without_memory_fails_and_leaves_none)
{
    static const char *const files[] = {"jpeg/gray", "png/rgb8-interlaced"};
    for (int i = 0; i < 2; i++) {
        const int64_t n = read_file(files[i]);
        tt_status status = TT_ERR_NOMEM;
        for (int64_t k = 1; status != TT_OK && k < 100; k++) {
            tt_image image = {0};
            tt_alloc_fail_at(k);
            status = tt_decode(bytes, n, &image);
            tt_alloc_fail_at(0);
            tt_image_fini(&image);
            CHECK(tt_alloc_live() == 0);
        }
        CHECK(status == TT_OK);
    }
}
