// Images in folders: classes, order, splits, and folders that are not right.

#include "base/alloc.h"
#include "base/str.h"
#include "data/source/source.h"
#include "test.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[] = "/tmp/tutti-folder-XXXXXX";

static void enter(void)
{
    CHECK(mkdtemp(root) != NULL);
}

static void leave(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    CHECK(system(command) == 0);
    CHECK(tt_alloc_live() == 0);
}

static void make_folders(char *path)
{
    for (char *p = path + sizeof root; *p != '\0'; p++)
        if (*p == '/') {
            *p = '\0';
            (void)mkdir(path, 0700);
            *p = '/';
        }
}

// Copies a file of the corpus to root/name, or makes a folder of a name that ends
// with a slash.
static void put(const char *name, const char *corpus)
{
    static char bytes[8192];
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    make_folders(path);
    if (corpus == NULL)
        return;
    FILE *to = fopen(path, "wb");
    snprintf(path, sizeof path, "tests/fuzz/corpus/%s", corpus);
    FILE *from = fopen(path, "rb");
    CHECK(from != NULL && to != NULL);
    const size_t n = fread(bytes, 1, sizeof bytes, from);
    CHECK(fwrite(bytes, 1, n, to) == n);
    fclose(from);
    fclose(to);
}

static tt_source_request request_of(const char *path, tt_data_split split)
{
    return (tt_source_request){.split = split,
                               .path = path,
                               .val = "",
                               .holdout = 0.1,
                               .tokenizer = ""};
}

static tt_status open_as(const tt_source_request *request, tt_source **source)
{
    const tt_source_def *def = NULL;
    CHECK_OK(tt_source_find("folder", &def));
    *source = NULL;
    return tt_source_open(def, request, NULL, source);
}

static int32_t label_at(const tt_source *source, int64_t index)
{
    tt_image image = {0};
    int32_t label = -1;
    CHECK_OK(tt_source_read_image(source, index, &image, &label));
    tt_image_fini(&image);
    return label;
}

TEST(classes_are_folders_in_the_order_of_their_bytes)
{
    enter();
    put("b/deep/er/1.png", "png/rgb8");
    put("b/0.JPG", "jpeg/gray");
    put("B/x.jpeg", "jpeg/cmyk");
    put("a10/x.png", "png/gray1");
    put("a9/x.png", "png/palette4");
    put("a9/notes.txt", "png/palette4");
    put("a9/.hidden.png", "png/palette4");
    put(".git/x.png", "png/rgb8");
    put("list.csv", "png/rgb8");
    tt_source_request request = request_of(root, TT_SPLIT_TRAIN);
    tt_source *source = NULL;
    request.holdout = 0;
    CHECK_OK(open_as(&request, &source));
    static const char *const names[] = {"B", "a10", "a9", "b"};
    CHECK(source->kind == TT_DATA_IMAGES && source->n == 5);
    CHECK(source->classes == 4 && source->channels == 3);
    CHECK(source->height == 0 && source->width == 0); // they differ
    for (int i = 0; i < 4; i++)
        CHECK(strcmp(source->class_name[i], names[i]) == 0);
    static const int32_t labels[] = {0, 1, 2, 3, 3};
    for (int i = 0; i < 5; i++)
        CHECK(label_at(source, i) == labels[i]);
    tt_image image = {0};
    int32_t label = 0;
    CHECK_OK(tt_source_read_image(source, 3, &image, &label));
    CHECK(image.channels == 1 && image.height == 11 && image.width == 19);
    CHECK(tt_source_read_image(source, 5, &image, &label) == TT_ERR_STATE);
    tt_image_fini(&image);
    tt_source_close(source);
    request.split = TT_SPLIT_VAL;
    CHECK_OK(open_as(&request, &source)); // no part of it is for validation
    CHECK(source == NULL);
    leave();
}

TEST(folders_train_and_test_are_the_splits)
{
    enter();
    put("train/cat/1.png", "png/rgb8");
    put("train/cat/2.png", "png/rgb8");
    put("train/dog/1.png", "png/rgb8");
    put("train/eel/1.png", "png/rgb8");
    put("test/cat/1.png", "png/rgb16");
    put("test/eel/1.png", "png/rgb16");
    tt_source_request request = request_of(root, TT_SPLIT_TRAIN);
    tt_source *source = NULL;
    CHECK_OK(open_as(&request, &source));
    CHECK(source->n == 4 && source->classes == 3);
    CHECK(source->height == 7 && source->width == 9);
    tt_source_close(source);
    request.split = TT_SPLIT_VAL;
    CHECK_OK(open_as(&request, &source));
    CHECK(source->n == 2 && source->classes == 3);
    CHECK(label_at(source, 0) == 0 && label_at(source, 1) == 2);
    tt_source_close(source);

    put("test/fox/1.png", "png/rgb8");
    CHECK(open_as(&request, &source) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "test/fox") != NULL);
    leave();
}

TEST(holdout_is_the_end_of_every_class)
{
    enter();
    char name[64];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "a/%02d.png", i);
        put(name, i < 18 ? "png/gray8" : "png/rgb8");
        snprintf(name, sizeof name, "b/%02d.png", i);
        put(name, i < 18 ? "png/gray8" : "png/rgb8");
    }
    put("c/only.png", "png/gray8");
    tt_source_request request = request_of(root, TT_SPLIT_TRAIN);
    tt_source *source = NULL;
    CHECK_OK(open_as(&request, &source));
    CHECK(source->n == 37 && source->channels == 1);
    CHECK(label_at(source, 17) == 0 && label_at(source, 18) == 1 &&
          label_at(source, 36) == 2);
    tt_source_close(source);
    request.split = TT_SPLIT_VAL;
    CHECK_OK(open_as(&request, &source));
    CHECK(source->n == 4 && source->channels == 3 && source->classes == 3);
    CHECK(label_at(source, 1) == 0 && label_at(source, 2) == 1);
    tt_source_close(source);
    leave();
}

TEST(what_the_model_wants_is_what_the_images_become)
{
    enter();
    put("a/1.png", "png/gray8");
    tt_source_request request = request_of(root, TT_SPLIT_TRAIN);
    tt_source *source = NULL;
    request.channels = 3;
    request.image = 224;
    CHECK_OK(open_as(&request, &source));
    CHECK(source->channels == 3 && source->height == 0);
    tt_source_close(source);
    leave();
}

static void check_error(const tt_source_request *request, const char *word)
{
    tt_source *source = NULL;
    CHECK(open_as(request, &source) != TT_OK);
    CHECK_MSG(strstr(tt_error_message(), word) != NULL, "%s",
              tt_error_message());
}

TEST(folders_that_are_not_right_are_named)
{
    enter();
    tt_source_request request = request_of("", TT_SPLIT_TRAIN);
    request.holdout = 0;
    check_error(&request, "data.path");
    request.path = "/nowhere/at/all";
    check_error(&request, "/nowhere/at/all");
    request.path = root;
    check_error(&request, "no folders");
    put("a/", NULL);
    check_error(&request, "/a has no images");
    put("a/x.png", "png/bad-zero-size");
    check_error(&request, "/a/x.png: the PNG is damaged");
    put("a/x.png", "png/rgb8");
    put("a/y.png", "jpeg/bad-text");
    check_error(&request, "/a/y.png: it is no image that can be read");
    leave();
}

TEST(images_that_cannot_be_read_are_named)
{
    enter();
    put("a/x.png", "png/bad-truncated");
    put("a/y.png", "jpeg/rgb-444");
    tt_source_request request = request_of(root, TT_SPLIT_TRAIN);
    tt_source *source = NULL;
    request.holdout = 0;
    CHECK_OK(open_as(&request, &source));
    char path[64];
    snprintf(path, sizeof path, "%s/a/y.png", root);
    tt_image image = {0};
    int32_t label = 0;
    CHECK(tt_source_read_image(source, 0, &image, &label) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "/a/x.png: the PNG is damaged") != NULL);
    CHECK_OK(tt_source_read_image(source, 1, &image, &label));
    CHECK(unlink(path) == 0);
    CHECK(tt_source_read_image(source, 1, &image, &label) == TT_ERR_IO);
    CHECK(strstr(tt_error_message(), path) != NULL);
    tt_image_fini(&image);
    tt_source_close(source);
    leave();
}

TEST(circles_of_links_are_refused)
{
    enter();
    put("a/x.png", "png/rgb8");
    char link[64];
    snprintf(link, sizeof link, "%s/a/again", root);
    CHECK(symlink("../a", link) == 0);
    const tt_source_request request = request_of(root, TT_SPLIT_TRAIN);
    check_error(&request, "circle");
    leave();
}

TEST(opening_a_folder_without_memory_leaves_none)
{
    enter();
    put("train/a/x.png", "png/rgb8");
    put("train/b/x.jpg", "jpeg/gray");
    put("val/b/x.jpg", "jpeg/gray");
    for (int split = TT_SPLIT_TRAIN; split <= TT_SPLIT_VAL; split++) {
        const tt_source_request request =
            request_of(root, (tt_data_split)split);
        tt_status status = TT_ERR_NOMEM;
        int64_t k = 1;
        for (; status != TT_OK && k < 500; k++) {
            tt_source *source = NULL;
            tt_alloc_fail_at(k);
            status = open_as(&request, &source);
            tt_alloc_fail_at(0);
            tt_source_close(source);
            CHECK(tt_alloc_live() == 0);
        }
        CHECK(status == TT_OK && k > 5);
    }
    leave();
}

TEST(images_of_many_kinds_are_read_and_others_are_counted)
{
    enter();
    put("a/1.bmp", "bmp/rgb24");
    put("a/2.gif", "gif/plain");
    put("a/3.ppm", "pnm/p6");
    put("a/4.webp", "jpeg/bad-text");
    put("a/5.WEBP", "jpeg/bad-text");
    put("a/README", "jpeg/bad-text");
    put("b/1.jfif", "jpeg/gray");
    put("b/deep/2.PGM", "pnm/p5");
    put("b/deep/3.tiff", "jpeg/bad-text");
    tt_source_request request = request_of(root, TT_SPLIT_TRAIN);
    tt_source *source = NULL;
    tt_image image = {0};
    request.holdout = 0;
    CHECK_OK(open_as(&request, &source));
    CHECK(source->n == 5 && source->classes == 2 && source->channels == 3);
    CHECK(source->note != NULL &&
          strstr(source->note, "4 files are left out: 2 .webp, 1 without an "
                               "ending, 1 .tiff") != NULL);
    for (int64_t i = 0; i < source->n; i++) {
        int32_t label = -1;
        CHECK_OK(tt_source_read_image(source, i, &image, &label));
        CHECK(label == (i < 3 ? 0 : 1));
    }
    tt_image_fini(&image);
    tt_source_close(source);
    put("c/1.webp", "jpeg/bad-text");
    check_error(&request, "/c has no images that can be read");
    check_error(&request, "3 .webp");
    leave();
}
