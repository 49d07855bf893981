// Shards of images: how members become samples, which files a path means, and what
// is wrong with the others.

#include "base/alloc.h"
#include "data/source/source.h"
#include "test.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/tutti-shards-XXXXXX";
static FILE *shard;

static void enter(void)
{
    CHECK(mkdtemp(folder) != NULL);
}

static void leave(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    CHECK(system(command) == 0);
    CHECK(tt_alloc_live() == 0);
}

static const char *path_of(const char *name)
{
    static char path[2][256];
    static int turn;
    turn = 1 - turn;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void begin(const char *name)
{
    shard = fopen(path_of(name), "wb");
    CHECK(shard != NULL);
}

static void add(const char *name, const void *bytes, size_t n)
{
    static const char zeros[512];
    char header[512] = "";
    snprintf(header, 100, "%s", name);
    snprintf(header + 124, 12, "%011zo", n);
    header[156] = '0';
    memcpy(header + 257,
           "ustar\0"
           "00",
           8);
    memset(header + 148, ' ', 8);
    unsigned sum = 0;
    for (int i = 0; i < 512; i++)
        sum += (unsigned char)header[i];
    snprintf(header + 148, 8, "%06o", sum);
    CHECK(fwrite(header, 1, 512, shard) == 512);
    CHECK(fwrite(bytes, 1, n, shard) == n);
    const size_t rest = (512 - n % 512) % 512;
    CHECK(fwrite(zeros, 1, rest, shard) == rest);
}

static void add_text(const char *name, const char *text)
{
    add(name, text, strlen(text));
}

static void add_image(const char *name, const char *corpus)
{
    static char bytes[8192];
    char path[256];
    snprintf(path, sizeof path, "tests/fuzz/corpus/%s", corpus);
    FILE *from = fopen(path, "rb");
    CHECK(from != NULL);
    const size_t n = fread(bytes, 1, sizeof bytes, from);
    fclose(from);
    add(name, bytes, n);
}

static void end(void)
{
    static const char zeros[1024];
    CHECK(fwrite(zeros, 1, sizeof zeros, shard) == sizeof zeros);
    CHECK(fclose(shard) == 0);
}

// A shard of `n` samples of the classes `first`, first + 1, ...
static void put_shard(const char *name, int first, int n)
{
    begin(name);
    for (int i = first; i < first + n; i++) {
        char member[64], text[16];
        snprintf(text, sizeof text, "%d", i);
        snprintf(member, sizeof member, "d/%04d.jpg", i);
        add_image(member, "jpeg/gray");
        snprintf(member, sizeof member, "d/%04d.cls", i);
        add_text(member, text);
    }
    end();
}

static tt_status open_as(const tt_source_request *request, tt_source **source)
{
    const tt_source_def *def = NULL;
    CHECK_OK(tt_source_find("webdataset", &def));
    *source = NULL;
    return tt_source_open(def, request, NULL, source);
}

static tt_source_request request_of(const char *path)
{
    return (tt_source_request){.path = path, .val = "", .tokenizer = ""};
}

static int32_t label_at(const tt_source *source, int64_t index)
{
    tt_image image = {0};
    int32_t label = -1;
    CHECK_OK(tt_source_read_image(source, index, &image, &label));
    tt_image_fini(&image);
    return label;
}

TEST(members_with_one_key_are_a_sample)
{
    enter();
    begin("a.tar");
    add_text("./.hidden", "x");
    add_text("README", "no dot, no sample");
    add_image("p/1.jpg", "jpeg/gray");
    add_text("p/1.json", "{}");
    add_text("p/1.cls", " 12 \n");
    add_text("q/1.CLS", "0");
    add_image("q/1.seg.png", "png/gray1"); // its key is seg.png
    add_image("q/1.PNG", "png/rgb8");
    add_image("r.jpeg", "png/rgb8"); // the bytes say what it is
    add_text("r.cls", "3");
    end();
    const tt_source_request request = request_of(path_of("a.tar"));
    tt_source *source = NULL;
    CHECK_OK(open_as(&request, &source));
    CHECK(source->kind == TT_DATA_IMAGES && source->n == 3);
    CHECK(source->classes == 13 && source->channels == 3);
    CHECK(source->height == 0); // they differ
    CHECK(label_at(source, 0) == 12 && label_at(source, 1) == 0 &&
          label_at(source, 2) == 3);
    tt_source_close(source);
    leave();
}

static void check_shards(const char *path, int64_t n, int32_t first)
{
    const tt_source_request request = request_of(path);
    tt_source *source = NULL;
    CHECK_OK(open_as(&request, &source));
    CHECK_MSG(source->n == n && label_at(source, 0) == first, "%s", path);
    tt_source_close(source);
}

TEST(path_of_shards_is_file_folder_pattern_or_range)
{
    enter();
    put_shard("t-10.tar", 7, 2);
    put_shard("t-09.tar", 4, 3);
    put_shard("u-{1..2}.tar", 1, 1);
    check_shards(path_of("t-10.tar"), 2, 7);
    check_shards(folder, 6, 4);
    check_shards(path_of("t-*.tar"), 5, 4);
    check_shards(path_of("{u-*,t-*}.tar"), 6, 4);
    check_shards(path_of("t-{09..10}.tar"), 5, 4);
    check_shards(path_of("u-{1..2}.tar"), 1, 1); // a file of that very name
    leave();
}

TEST(validation_shards_are_their_own_or_the_last_samples)
{
    enter();
    put_shard("a.tar", 0, 10);
    put_shard("b.tar", 0, 3);
    tt_source_request request = request_of(path_of("a.tar"));
    tt_source *source = NULL;
    request.holdout = 0.2;
    CHECK_OK(open_as(&request, &source));
    CHECK(source->n == 8 && source->classes == 10);
    tt_source_close(source);
    request.split = TT_SPLIT_VAL;
    CHECK_OK(open_as(&request, &source));
    CHECK(source->n == 2 && source->classes == 10);
    CHECK(label_at(source, 0) == 8 && label_at(source, 1) == 9);
    tt_source_close(source);
    request.val = path_of("b.tar");
    request.classes = 10;
    CHECK_OK(open_as(&request, &source));
    CHECK(source->n == 3 && source->classes == 10);
    tt_source_close(source);
    request.split = TT_SPLIT_TRAIN;
    CHECK_OK(open_as(&request, &source));
    CHECK(source->n == 10);
    tt_source_close(source);
    leave();
}

static void check_error(const char *path, const char *word)
{
    const tt_source_request request = request_of(path);
    tt_source *source = NULL;
    CHECK_MSG(open_as(&request, &source) != TT_OK, "%s opens", path);
    CHECK_MSG(strstr(tt_error_message(), word) != NULL, "%s",
              tt_error_message());
}

TEST(shards_that_are_not_right_are_named)
{
    enter();
    const char *corpus = "tests/fuzz/corpus/tar/";
    char path[256];
    static const char *const bad[][2] = {
        {"bad-no-class", "bad-no-class: sample 0001 has no class"},
        {"bad-no-image", "bad-no-image: sample 0001 has no image"},
        {"bad-class", "0001.cls is not the number of a class"},
        {"bad-two-images", "has two images"},
        {"bad-image", "sample 0001: the PNG is damaged"},
        {"bad-checksum", "checksum"},
    };
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof path, "%s%s", corpus, bad[i][0]);
        check_error(path, bad[i][1]);
    }
    check_error("", "data.path");
    check_error(folder, "no such files");
    check_error("/nowhere/x.tar", "/nowhere/x.tar");
    check_error("/nowhere/{3..1}.tar", "must go up");
    check_error("/nowhere/{1..3}.tar", "/nowhere/1.tar");
    begin("a.tar");
    add_text("x", "no sample");
    end();
    check_error(path_of("a.tar"), "no samples");
    begin("a.tar");
    add_image("1.png", "png/rgb8");
    add_text("2.cls", "1");
    end();
    check_error(path_of("a.tar"), "sample 1 has no class");
    leave();
}

TEST(shard_that_shrinks_later_is_an_error)
{
    enter();
    put_shard("a.tar", 0, 20);
    const tt_source_request request = request_of(path_of("a.tar"));
    tt_source *source = NULL;
    tt_image image = {0};
    int32_t label = 0;
    CHECK_OK(open_as(&request, &source));
    CHECK(truncate(path_of("a.tar"), 5000) == 0);
    CHECK_OK(tt_source_read_image(source, 1, &image, &label));
    CHECK(tt_source_read_image(source, 19, &image, &label) == TT_ERR_IO);
    CHECK(strstr(tt_error_message(), "a.tar") != NULL);
    tt_image_fini(&image);
    tt_source_close(source);
    leave();
}

TEST(opening_shards_without_memory_leaves_none)
{
    enter();
    put_shard("a.tar", 0, 3);
    put_shard("b.tar", 0, 3);
    const tt_source_request request = request_of(folder);
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
    CHECK(status == TT_OK && k > 10);
    leave();
}

TEST(classes_stand_in_json_and_text_too)
{
    enter();
    begin("a.tar");
    add_image("1.jpg", "jpeg/gray");
    add_text("1.json", "{\"id\": 9, \"label\": 3}");
    add_image("2.jpg", "jpeg/gray");
    add_text("2.txt", "4\n");
    add_text("3.txt", "a caption");
    add_text("3.json", "{\"caption\": \"x\"}");
    add_image("3.jpg", "jpeg/gray");
    add_text("3.cls", "5");
    add_text("4.cls", "1"); // it wins over the others, in any order
    add_text("4.json", "{\"label\": 7}");
    add_text("4.txt", "8");
    add_image("4.jpg", "jpeg/gray");
    add_image("v1.0/5.left.jpg", "jpeg/gray"); // names with more dots
    add_text("v1.0/5.meta.cls", "2");
    end();
    const tt_source_request request = request_of(path_of("a.tar"));
    tt_source *source = NULL;
    CHECK_OK(open_as(&request, &source));
    CHECK(source->n == 5 && source->classes == 6);
    static const int32_t want[] = {3, 4, 5, 1, 2};
    for (int i = 0; i < 5; i++)
        CHECK_MSG(label_at(source, i) == want[i], "sample %d", i);
    tt_source_close(source);
    leave();
}

static void refuses(const char *says)
{
    const tt_source_request request = request_of(path_of("a.tar"));
    tt_source *source = NULL;
    CHECK(open_as(&request, &source) != TT_OK);
    CHECK_MSG(strstr(tt_error_message(), says) != NULL, "%s",
              tt_error_message());
}

TEST(samples_without_a_class_or_an_image_are_named)
{
    enter();
    begin("a.tar");
    add_image("1.jpg", "jpeg/gray");
    add_text("1.txt", "a caption");
    end();
    refuses("sample 1 has no class (.cls, or a number in .json or .txt)");
    begin("a.tar");
    add_text("1.webp", "RIFF");
    add_text("1.cls", "1");
    end();
    refuses("sample 1 has no image that can be read");
    begin("a.tar");
    add_image("1.jpg", "jpeg/gray");
    add_text("1.json", "{\"label\": \"cat\"}");
    end();
    refuses("1.json is not the number of a class");
    begin("a.tar");
    add_image("1.a.jpg", "jpeg/gray");
    add_image("1.b.jpg", "jpeg/gray");
    add_text("1.cls", "1");
    end();
    refuses("sample 1 has two images, the second is 1.b.jpg");
    leave();
}

TEST(packed_shards_are_read)
{
    enter();
    put_shard("a.tar", 0, 3);
    put_shard("b.tar", 3, 2);
    char command[256];
    snprintf(command, sizeof command,
             "cd %s && gzip a.tar && gzip b.tar && mv b.tar.gz b.tgz", folder);
    CHECK(system(command) == 0);
    const tt_source_request request = request_of(folder);
    tt_source *source = NULL;
    CHECK_OK(open_as(&request, &source));
    CHECK(source->n == 5 && source->classes == 5);
    for (int i = 0; i < 5; i++)
        CHECK(label_at(source, i) == i);
    tt_source_close(source);
    snprintf(command, sizeof command, "truncate -s -20 %s/b.tgz", folder);
    CHECK(system(command) == 0);
    CHECK(open_as(&request, &source) != TT_OK);
    CHECK(strstr(tt_error_message(), "b.tgz: damaged") != NULL);
    leave();
}
