// From an image to what the model sees: resizing against Pillow, geometry,
// normalisation, and options that contradict each other.

#include "base/alloc.h"
#include "base/arena.h"
#include "base/rng.h"
#include "data/image/resize.h"
#include "data/image/transform.h"
#include "test.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// The same bytes on every machine, and in the script that asked Pillow.
static void fill(uint8_t *to, int64_t n)
{
    uint32_t x = 1;
    for (int64_t i = 0; i < n; i++) {
        x = x * 1664525U + 1013904223U;
        to[i] = (uint8_t)(x >> 24);
    }
}

typedef struct golden {
    int64_t channels, in_height, in_width, top, left, height, width;
    int64_t to_height, to_width;
    uint64_t hash; // of Image.crop(...).resize(..., BILINEAR)
} golden;

static const golden goldens[] = {
    {3, 40, 50, 0, 0, 40, 50, 32, 32, 0xd9f91c25489a4fa7},
    {3, 37, 23, 0, 0, 37, 23, 101, 64, 0x7b26efa194bfd34d},
    {1, 64, 48, 7, 5, 53, 39, 9, 13, 0x1a40668836c3f066},
    {3, 200, 300, 17, 31, 163, 259, 56, 56, 0x9318571b3f59dcf7},
    {1, 1, 1, 0, 0, 1, 1, 4, 5, 0xfb6bfa2220807693},
    {3, 9, 7, 8, 6, 1, 1, 3, 3, 0x07c9a596d44eb500},
    {4, 30, 31, 2, 1, 27, 19, 7, 19, 0xe50e99cfbd7177ec},
    {3, 300, 5, 0, 0, 300, 5, 2, 5, 0x03ddc04c50128bf5},
};
enum { N_GOLDENS = sizeof goldens / sizeof goldens[0] };

static void *allocate(int64_t bytes)
{
    void *block = malloc((size_t)bytes);
    CHECK(block != NULL);
    return block;
}

static uint8_t *resize(const tt_resize *r)
{
    uint8_t *out = allocate(r->rows * r->cols * r->channels);
    void *scratch = allocate(tt_resize_bytes(r));
    tt_resize_run(r, scratch, out);
    free(scratch);
    return out;
}

static tt_resize resize_of(const golden *g, const uint8_t *in)
{
    return (tt_resize){
        .pixels = in + (g->top * g->in_width + g->left) * g->channels,
        .stride = g->in_width * g->channels,
        .channels = g->channels,
        .height = g->height,
        .width = g->width,
        .to_height = g->to_height,
        .to_width = g->to_width,
        .rows = g->to_height,
        .cols = g->to_width,
    };
}

TEST(resize_gives_the_bytes_of_pillow)
{
    for (int i = 0; i < N_GOLDENS; i++) {
        const golden *g = &goldens[i];
        const int64_t n = g->in_height * g->in_width * g->channels;
        uint8_t *in = allocate(n);
        fill(in, n);
        const tt_resize r = resize_of(g, in);
        uint8_t *out = resize(&r);
        CHECK_MSG(tt_hash(out, r.rows * r.cols * r.channels) == g->hash,
                  "case %d", i);
        free(out);
        free(in);
    }
}

TEST(part_of_a_resize_is_part_of_the_whole)
{
    for (int i = 0; i < N_GOLDENS; i++) {
        const golden *g = &goldens[i];
        const int64_t n = g->in_height * g->in_width * g->channels;
        uint8_t *in = allocate(n);
        fill(in, n);
        tt_resize r = resize_of(g, in);
        uint8_t *whole = resize(&r);
        r.top = r.rows / 3;
        r.left = r.cols / 4;
        r.rows = r.rows - r.top - r.rows / 4;
        r.cols = r.cols - r.left - r.cols / 3;
        uint8_t *part = resize(&r);
        const int64_t row = r.cols * r.channels;
        for (int64_t y = 0; y < r.rows; y++)
            CHECK(
                memcmp(part + y * row,
                       whole + ((r.top + y) * r.to_width + r.left) * r.channels,
                       (size_t)row) == 0);
        free(part);
        free(whole);
        free(in);
    }
}

static tt_transform defaults(int64_t channels, int64_t image)
{
    tt_arena *arena = tt_arena_create();
    tt_transform t = {0};
    CHECK_OK(tt_opt_defaults(tt_transform_options, &t, arena));
    tt_arena_destroy(arena);
    t.channels = channels;
    t.image = image;
    t.is_train = true;
    return t;
}

static void make(tt_image *image, int64_t channels, int64_t height,
                 int64_t width)
{
    CHECK_OK(tt_image_reserve(image, channels, height, width, false));
    fill(image->u8, channels * height * width);
}

static void set(tt_f64s *list, int64_t n, double first, double step)
{
    list->n = n;
    for (int64_t i = 0; i < n; i++)
        list->v[i] = first + step * (double)i;
}

static tt_image scratch;
static float out[3 * 64 * 64];

TEST(bytes_become_numbers_from_0_to_1_plane_by_plane)
{
    const tt_transform t = defaults(3, 5);
    tt_image in = {0};
    make(&in, 3, 5, 5);
    in.u8[0] = 0;
    in.u8[1] = 255;
    CHECK_OK(tt_transform_apply(&t, &in, 1, &scratch, out));
    for (int64_t i = 0; i < 25; i++)
        for (int64_t c = 0; c < 3; c++)
            CHECK(out[c * 25 + i] == (float)in.u8[i * 3 + c] / 255.0F);
    CHECK(out[0] == 0 && out[25] == 1);
    tt_image_fini(&in);
}

TEST(mean_and_std_are_for_all_channels_or_for_each)
{
    tt_transform t = defaults(3, 4);
    tt_image in = {0};
    make(&in, 3, 4, 4);
    set(&t.mean, 3, 0.4, 0.05);
    set(&t.std, 1, 0.25, 0);
    CHECK_OK(tt_transform_apply(&t, &in, 1, &scratch, out));
    for (int64_t c = 0; c < 3; c++)
        CHECK_CLOSE(
            out[c * 16 + 7],
            (in.u8[7 * 3 + c] / 255.0 - (0.4 + 0.05 * (double)c)) / 0.25, 1e-6);
    set(&t.mean, 2, 0.4, 0.05);
    CHECK(tt_transform_apply(&t, &in, 1, &scratch, out) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "data.mean") != NULL);
    tt_image_fini(&in);
}

TEST(gray_is_repeated_and_colour_becomes_luma)
{
    tt_transform t = defaults(3, 4);
    tt_image in = {0};
    make(&in, 1, 4, 4);
    CHECK_OK(tt_transform_apply(&t, &in, 1, &scratch, out));
    CHECK(memcmp(out, out + 16, 16 * sizeof *out) == 0);
    CHECK(memcmp(out, out + 32, 16 * sizeof *out) == 0);
    CHECK(out[3] == (float)in.u8[3] / 255.0F);

    t.channels = 1;
    make(&in, 3, 4, 4);
    memcpy(in.u8, "\xff\x00\x00\x00\xff\x00\x00\x00\xff\xff\xff\xff", 12);
    CHECK_OK(tt_transform_apply(&t, &in, 1, &scratch, out));
    CHECK(out[0] == 76 / 255.0F && out[1] == 150 / 255.0F &&
          out[2] == 29 / 255.0F && out[3] == 1);
    make(&in, 2, 4, 4);
    CHECK(tt_transform_apply(&t, &in, 1, &scratch, out) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "2 channels") != NULL);
    tt_image_fini(&in);
    tt_image_fini(&scratch);
    CHECK(tt_alloc_live() == 0);
}

// Where in the padded image the square was cut out: found by trying all places.
static bool is_cut_at(const tt_image *in, int64_t side, int64_t y0, int64_t x0,
                      bool is_flipped)
{
    for (int64_t y = 0; y < side; y++)
        for (int64_t x = 0; x < side; x++) {
            const int64_t iy = y + y0;
            const int64_t ix = (is_flipped ? side - 1 - x : x) + x0;
            const bool is_in =
                iy >= 0 && ix >= 0 && iy < in->height && ix < in->width;
            const int value = is_in ? in->u8[iy * in->width + ix] : 0;
            if (out[y * side + x] != (float)value / 255.0F)
                return false;
        }
    return true;
}

TEST(pad_and_flip_reach_every_place_equally_often)
{
    enum { SIDE = 8, PAD = 2, PLACES = 2 * PAD + 1, DRAWS = 2000 };
    tt_transform t = defaults(1, SIDE);
    tt_image in = {0};
    int count[2][PLACES][PLACES] = {0};
    int flipped = 0;
    make(&in, 1, SIDE, SIDE);
    t.pad = PAD;
    t.flip = true;
    for (uint64_t i = 0; i < DRAWS; i++) {
        CHECK_OK(tt_transform_apply(&t, &in, tt_rng_key(1, "test", i), &scratch,
                                    out));
        int found = 0;
        for (int f = 0; f < 2; f++)
            for (int y = 0; y < PLACES; y++)
                for (int x = 0; x < PLACES; x++)
                    if (is_cut_at(&in, SIDE, y - PAD, x - PAD, f == 1)) {
                        count[f][y][x]++;
                        flipped += f;
                        found++;
                    }
        CHECK(found == 1);
    }
    for (int i = 0; i < 2 * PLACES * PLACES; i++) { // 40 expected, sigma 6.3
        const int n = count[i / 25][i / 5 % 5][i % 5];
        CHECK_MSG(n > 15 && n < 70, "%d of %d", n, DRAWS);
    }
    CHECK(flipped > DRAWS * 45 / 100 && flipped < DRAWS * 55 / 100);
    tt_image_fini(&in);
}

TEST(validation_chooses_nothing_at_random)
{
    tt_transform t = defaults(1, 8);
    tt_image in = {0};
    make(&in, 1, 8, 8);
    t.pad = 3;
    t.flip = true;
    t.is_train = false;
    for (uint64_t key = 0; key < 20; key++) {
        CHECK_OK(tt_transform_apply(&t, &in, key, &scratch, out));
        CHECK(is_cut_at(&in, 8, 0, 0, false));
    }
    t.image = 12; // padding alike on both sides
    CHECK_OK(tt_transform_apply(&t, &in, 1, &scratch, out));
    CHECK(is_cut_at(&in, 12, -2, -2, false));
    tt_image_fini(&in);
}

TEST(image_of_another_size_is_refused_without_resize)
{
    tt_transform t = defaults(1, 8);
    tt_image in = {0};
    make(&in, 1, 8, 9);
    CHECK(tt_transform_apply(&t, &in, 1, &scratch, out) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "9 x 8") != NULL);
    CHECK(strstr(tt_error_message(), "data.resize") != NULL);
    make(&in, 1, 3, 8);
    t.pad = 2;
    CHECK(tt_transform_apply(&t, &in, 1, &scratch, out) == TT_ERR_ARG);
    tt_image_fini(&in);
}

// What fit should give, made from resize alone.
static void check_fit(const tt_image *in, int64_t side, int64_t to_height,
                      int64_t to_width, int64_t y, int64_t x)
{
    const tt_resize r = {.pixels = in->u8,
                         .stride = in->width * in->channels,
                         .channels = in->channels,
                         .height = in->height,
                         .width = in->width,
                         .to_height = to_height,
                         .to_width = to_width,
                         .top = y,
                         .left = x,
                         .rows = side,
                         .cols = side};
    uint8_t *want = resize(&r);
    for (int64_t i = 0; i < side * side; i++)
        for (int64_t c = 0; c < in->channels; c++)
            CHECK(out[c * side * side + i] ==
                  (float)want[i * in->channels + c] / 255.0F);
    free(want);
}

TEST(fit_resizes_the_shorter_side_and_crops_the_middle)
{
    tt_transform t = defaults(3, 28);
    tt_image in = {0};
    t.is_train = false;
    for (int kind = TT_RESIZE_FIT; kind <= TT_RESIZE_RANDOM; kind++) {
        t.resize = kind;
        t.resize_to = 0; // 28 * 256 / 224 is 32
        make(&in, 3, 50, 71);
        CHECK_OK(tt_transform_apply(&t, &in, 1, &scratch, out));
        check_fit(&in, 28, 32, 45, 2, 8); // 8.5 is rounded to even
        make(&in, 3, 71, 50);
        t.resize_to = 40;
        CHECK_OK(tt_transform_apply(&t, &in, 1, &scratch, out));
        check_fit(&in, 28, 56, 40, 14, 6);
    }
    tt_image_fini(&in);
}

TEST(random_parts_stay_inside_and_depend_on_the_key_alone)
{
    enum { SIDE = 16 };
    tt_transform t = defaults(3, SIDE);
    tt_image in = {0}, other = {0};
    static float again[3 * SIDE * SIDE];
    static const int64_t size[][2] = {{50, 40}, {1, 1}, {300, 2}, {2, 300}};
    t.resize = TT_RESIZE_RANDOM;
    for (int i = 0; i < 4; i++) {
        make(&in, 3, size[i][0], size[i][1]);
        int differ = 0;
        for (uint64_t key = 0; key < 50; key++) {
            CHECK_OK(tt_transform_apply(&t, &in, key, &scratch, out));
            memcpy(again, out, sizeof again);
            CHECK_OK(tt_transform_apply(&t, &in, key + 1, &scratch, out));
            differ += memcmp(again, out, sizeof again) != 0;
            CHECK_OK(tt_transform_apply(&t, &in, key, &other, out));
            CHECK(memcmp(again, out, sizeof again) == 0);
        }
        CHECK(differ == 50 || size[i][0] == 1 || i >= 2);
    }
    tt_image_fini(&in);
    tt_image_fini(&other);
    tt_image_fini(&scratch);
    CHECK(tt_alloc_live() == 0);
}

TEST(whole_scale_and_ratio_one_is_a_plain_resize)
{
    tt_transform t = defaults(3, 16);
    tt_image in = {0};
    make(&in, 3, 40, 40);
    t.resize = TT_RESIZE_RANDOM;
    set(&t.scale, 2, 1, 0);
    set(&t.ratio, 2, 1, 0);
    CHECK_OK(tt_transform_apply(&t, &in, 5, &scratch, out));
    check_fit(&in, 16, 16, 16, 0, 0);
    tt_image_fini(&in);
}

TEST(floats_are_normalised_cropped_and_flipped)
{
    tt_transform t = defaults(2, 3);
    tt_image in = {0};
    CHECK_OK(tt_image_reserve(&in, 2, 3, 3, true));
    for (int i = 0; i < 18; i++)
        in.f32[i] = (float)i * 100;
    set(&t.mean, 1, 50, 0);
    set(&t.std, 1, 2, 0);
    CHECK_OK(tt_transform_apply(&t, &in, 1, &scratch, out));
    for (int i = 0; i < 18; i++)
        CHECK(out[i] == ((float)i * 100 - 50) / 2);
    t.flip = true;
    uint64_t key = 0;
    do
        CHECK_OK(tt_transform_apply(&t, &in, ++key, &scratch, out));
    while (out[0] == -25 && key < 100);
    CHECK(out[0] == 75 && out[2] == -25 && out[9] == (1100 - 50) / 2.0F);
    t.resize = TT_RESIZE_FIT;
    CHECK(tt_transform_apply(&t, &in, 1, &scratch, out) == TT_ERR_ARG);
    tt_image_fini(&in);
}

TEST(options_that_contradict_each_other_are_refused)
{
    tt_transform t = defaults(3, 32);
    CHECK_OK(tt_transform_check(&t));
    t.pad = 32;
    CHECK(tt_transform_check(&t) == TT_ERR_ARG);
    t.pad = 4;
    t.resize = TT_RESIZE_RANDOM;
    CHECK(tt_transform_check(&t) == TT_ERR_ARG);
    t.resize = TT_RESIZE_FIT;
    CHECK_OK(tt_transform_check(&t));
    t.resize_to = 31;
    CHECK(tt_transform_check(&t) == TT_ERR_ARG);
    t = defaults(3, 32);
    t.resize = TT_RESIZE_RANDOM;
    set(&t.scale, 2, 1, -0.5);
    CHECK(tt_transform_check(&t) == TT_ERR_ARG);
    set(&t.scale, 1, 1, 0);
    CHECK(tt_transform_check(&t) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "data.scale") != NULL);
}

TEST(image_memory_is_used_again)
{
    tt_image image = {0};
    CHECK_OK(tt_image_reserve(&image, 3, 10, 10, false));
    const void *before = image.memory;
    CHECK_OK(tt_image_reserve(&image, 1, 5, 5, true));
    CHECK(image.memory == before && image.f32 != NULL && image.u8 == NULL);
    CHECK(tt_image_reserve(&image, 3, 0, 10, false) == TT_ERR_ARG);
    CHECK(tt_image_reserve(&image, 1LL << 40, 1 << 20, 1 << 20, false) ==
          TT_ERR_ARG);
    CHECK(tt_image_reserve(&image, 1, 1LL << 41, 1, false) == TT_ERR_NOMEM);
    tt_image_fini(&image);
    CHECK(tt_alloc_live() == 0);
}
