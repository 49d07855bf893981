// Images in arrays: IDX, CIFAR, NumPy.

#include "data/number.h"
#include "data/shelf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- IDX ---------------------------------------------------------------------

// `n` images of 2 x 3 bytes; pixel k of image i is 10 i + k + add.
static int64_t idx_images(uint8_t *to, int n, int add)
{
    const uint8_t head[] = {0, 0, 8, 3, 0, 0, 0, (uint8_t)n,
                            0, 0, 0, 2, 0, 0, 0, 3};
    memcpy(to, head, sizeof head);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 6; k++)
            to[16 + 6 * i + k] = (uint8_t)(10 * i + k + add);
    return 16 + 6 * n;
}

static int64_t idx_labels(uint8_t *to, int n, int add)
{
    const uint8_t head[] = {0, 0, 8, 1, 0, 0, 0, (uint8_t)n};
    memcpy(to, head, sizeof head);
    for (int i = 0; i < n; i++)
        to[8 + i] = (uint8_t)(i % 3 + add);
    return 8 + n;
}

static void write_pair(const char *images, const char *labels, int n, int add)
{
    uint8_t file[512];
    tt_shelf_write(images, file, idx_images(file, n, add));
    tt_shelf_write(labels, file, idx_labels(file, n, add));
}

TEST(idx_finds_its_four_files)
{
    uint8_t file[512];
    tt_shelf_begin();
    write_pair("train-images-idx3-ubyte", "train-labels-idx1-ubyte", 10, 0);
    tt_shelf_gzip("t10k-images-idx3-ubyte.gz", file, idx_images(file, 4, 1));
    tt_shelf_gzip("t10k-labels-idx1-ubyte.gz", file, idx_labels(file, 4, 1));
    static const char *const ways[] = {
        "data=idx data.path=.", "data=idx data.path=train-images-idx3-ubyte"};
    for (int i = 0; i < 2; i++) {
        tt_data *data = tt_shelf_open(ways[i]);
        const tt_source *s = data->train;
        CHECK(s->n == 10 && s->channels == 1);
        CHECK(s->height == 2 && s->width == 3);
        CHECK(data->val->n == 4);
        CHECK(s->classes == 4 && data->val->classes == 4); // over both
        CHECK(tt_shelf_label(s, 4) == 1 && tt_shelf_pixel(s, 9, 5) == 95);
        CHECK(tt_shelf_label(data->val, 2) == 3);
        CHECK(tt_shelf_pixel(data->val, 1, 0) == 11);
        tt_data_close(data);
    }
    tt_shelf_starves(ways[0]);
    tt_shelf_end();
}

TEST(idx_prefers_the_file_that_is_not_packed)
{
    tt_shelf_begin();
    write_pair("train-images-idx3-ubyte", "train-labels-idx1-ubyte", 10, 0);
    tt_shelf_text("train-images-idx3-ubyte.gz", "not this one");
    tt_data *data = tt_shelf_open("data=idx data.path=.");
    CHECK(data->train->n == 9 && data->val->n == 1);
    CHECK(tt_shelf_pixel(data->val, 0, 0) == 90);
    tt_data_close(data);
    tt_shelf_end();
}

TEST(idx_of_floats_keeps_their_values)
{
    static const uint8_t images[] = {
        0, 0, 0x0d, 2, 0, 0, 0,    2,    0, 0, 0,    2,    0x3f, 0x80,
        0, 0, 0,    0, 0, 0, 0xc0, 0x20, 0, 0, 0x40, 0x40, 0,    0};
    static const uint8_t labels[] = {0, 0, 0x0c, 1, 0, 0, 0, 2,
                                     0, 0, 0,    7, 0, 0, 0, 1};
    tt_shelf_begin();
    tt_shelf_write("images", images, sizeof images);
    tt_shelf_write("labels", labels, sizeof labels);
    tt_data *data = tt_shelf_open("data=idx data.path=images data.holdout=0");
    CHECK(data->train->channels == 2 && data->train->classes == 8);
    CHECK(tt_shelf_pixel(data->train, 0, 0) == 1.0F);
    CHECK(tt_shelf_pixel(data->train, 1, 0) == -2.5F);
    CHECK(tt_shelf_pixel(data->train, 1, 1) == 3.0F);
    CHECK(tt_shelf_label(data->train, 0) == 7);
    tt_data_close(data);
    tt_shelf_end();
}

TEST(idx_refuses_files_that_lie)
{
    uint8_t file[512];
    tt_shelf_begin();
    write_pair("a-images", "a-labels", 5, 0);
    tt_shelf_write("a-images", file, idx_images(file, 5, 0) - 1);
    tt_shelf_refuses("data=idx data.path=a-images",
                     "a-images: the sizes in its header make 30 bytes, and 29 "
                     "follow it");
    memset(file + 4, 0xff, 12);
    tt_shelf_write("a-images", file, 46);
    tt_shelf_refuses("data=idx data.path=a-images", "make more than");
    tt_shelf_write("a-images", file, 15);
    tt_shelf_refuses("data=idx data.path=a-images", "3 dimensions, and 11");
    file[2] = 7;
    tt_shelf_write("a-images", file, 46);
    tt_shelf_refuses("data=idx data.path=a-images", "unknown type (0x07)");
    tt_shelf_text("a-images", "PNG");
    tt_shelf_refuses("data=idx data.path=a-images", "not an IDX file");
    tt_shelf_write("a-images", file, idx_images(file, 4, 0));
    tt_shelf_refuses("data=idx data.path=a-images",
                     "a-images has 4 samples and a-labels 5 labels");
    tt_shelf_write("b-images", file, idx_images(file, 4, 0));
    tt_shelf_refuses("data=idx data.path=b-images",
                     "b-images: its labels are missing (b-labels)");
    tt_shelf_refuses("data=idx data.path=.", "not clear which file");
    tt_shelf_text("a-images.gz", "PNG");
    tt_shelf_refuses("data=idx data.path=a-images.gz", "not a gzip file");
    tt_shelf_end();
}

TEST(idx_reads_fashion_mnist_of_debian)
{
    static const char folder[] = "/usr/share/datasets/fashion-mnist";
    FILE *file = fopen(
        "/usr/share/datasets/fashion-mnist/t10k-labels-idx1-ubyte.gz", "rb");
    if (file == NULL)
        SKIP("dataset-fashion-mnist is not installed");
    fclose(file);
    char settings[128];
    snprintf(settings, sizeof settings, "data=idx data.path=%s", folder);
    tt_data *data = tt_shelf_open(settings);
    CHECK(data->train->n == 60000 && data->val->n == 10000);
    CHECK(data->train->classes == 10 && data->train->height == 28);
    CHECK(tt_shelf_label(data->train, 0) == 9);
    CHECK(tt_shelf_label(data->val, 9999) == 5);
    tt_data_close(data);
}

// ---- gzip --------------------------------------------------------------------

TEST(gzip_of_several_members_is_one_file)
{
    uint8_t file[512], all[1024];
    tt_shelf_begin();
    const int64_t n = idx_images(file, 20, 0);
    tt_shelf_gzip("1.gz", file, 50);
    tt_shelf_gzip("2.gz", file + 50, n - 50);
    CHECK(system("cat 1.gz 2.gz >x-images.gz") == 0);
    tt_shelf_write("x-labels", all, idx_labels(all, 20, 0));
    tt_data *data = tt_shelf_open("data=idx data.path=x-images.gz");
    CHECK(tt_shelf_pixel(data->train, 17, 5) == 175);
    tt_data_close(data);
    CHECK(system("head -c 40 2.gz >cut; cat 1.gz cut >x-images.gz") == 0);
    tt_shelf_refuses("data=idx data.path=x-images.gz", "it ends too early");
    tt_shelf_end();
}

TEST(gzip_that_becomes_too_large_is_refused)
{
    tt_shelf_begin();
    tt_shelf_text("labels", "");
    CHECK(system("head -c 80000000 /dev/zero | gzip -1 >images.gz") == 0);
    tt_shelf_refuses("data=idx data.path=images.gz", "unpack it with gunzip");
    tt_shelf_end();
}

// ---- CIFAR -------------------------------------------------------------------

// Records whose label is i % classes and whose planes are full of i, i+1, i+2.
static void write_cifar(const char *name, int n, int n_labels, int classes)
{
    const int64_t bytes = 3072 + n_labels;
    uint8_t *file = calloc((size_t)n, (size_t)bytes);
    CHECK(file != NULL);
    for (int i = 0; i < n; i++) {
        uint8_t *record = file + i * bytes;
        record[n_labels - 1] = (uint8_t)(i % classes);
        if (n_labels == 2)
            record[0] = (uint8_t)(i % 20);
        for (int c = 0; c < 3; c++)
            memset(record + n_labels + 1024 * c, i + c, 1024);
    }
    tt_shelf_write(name, file, n * bytes);
    free(file);
}

TEST(cifar_10_is_a_folder_of_batches)
{
    tt_shelf_begin();
    write_cifar("data_batch_1.bin", 12, 1, 10);
    write_cifar("data_batch_2.bin", 3, 1, 10);
    write_cifar("test_batch.bin", 5, 1, 10);
    tt_shelf_text("batches.meta.txt", "airplane\nautomobile\nbird\ncat\ndeer\n"
                                      "dog\nfrog\nhorse\nship\ntruck\n\n");
    tt_shelf_text("readme.html", "something else");
    tt_data *data = tt_shelf_open("data=cifar data.path=.");
    const tt_source *s = data->train;
    CHECK(s->n == 15 && data->val->n == 5 && s->classes == 10);
    CHECK(s->channels == 3 && s->height == 32 && s->width == 32);
    CHECK(strcmp(s->class_name[9], "truck") == 0);
    CHECK(tt_shelf_label(s, 11) == 1 && tt_shelf_label(s, 14) == 2);
    CHECK(tt_shelf_pixel(s, 14, 3 * 500 + 2) == 4); // blue of the last
    CHECK(tt_shelf_pixel(s, 11, 0) == 11);
    tt_data_close(data);
    data = tt_shelf_open("data=cifar data.path=data_batch_1.bin "
                         "data.holdout=0.25");
    CHECK(data->train->n == 9 && data->val->n == 3);
    CHECK(tt_shelf_label(data->val, 0) == 9);
    tt_data_close(data);
    tt_shelf_starves("data=cifar data.path=.");
    tt_shelf_end();
}

TEST(cifar_100_has_two_labels)
{
    tt_shelf_begin();
    write_cifar("train.bin", 90, 2, 100);
    write_cifar("test.bin", 5, 2, 100);
    tt_data *data = tt_shelf_open("data=cifar data.path=.");
    CHECK(data->train->classes == 100 && data->train->class_name == NULL);
    CHECK(tt_shelf_label(data->train, 77) == 77 && data->val->n == 5);
    CHECK(tt_shelf_pixel(data->train, 77, 1) == 78);
    tt_data_close(data);
    data = tt_shelf_open("data=cifar data.path=. data.label=coarse");
    CHECK(data->train->classes == 20 && tt_shelf_label(data->train, 77) == 17);
    tt_data_close(data);
    tt_shelf_end();
}

TEST(cifar_refuses_what_is_none)
{
    tt_shelf_begin();
    tt_shelf_text("x.bin", "abc");
    tt_shelf_refuses("data=cifar data.path=x.bin", "3 bytes are no whole");
    tt_shelf_refuses("data=cifar data.path=.", "no data_batch_*.bin");
    write_cifar("y.bin", 3, 1, 10);
    tt_shelf_refuses("data=cifar data.path=y.bin data.version=100",
                     "9219 bytes are no whole number of records of 3074");
    tt_shelf_refuses("data=cifar data.path=y.bin data.label=coarse",
                     "CIFAR-10 has no coarse labels");
    write_cifar("z.bin", 30, 1, 30);
    tt_data *data = tt_shelf_open("data=cifar data.path=z.bin data.holdout=0");
    tt_image image = {0};
    int32_t label;
    CHECK(tt_source_read_image(data->train, 12, &image, &label) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "z.bin: record 12 has label 12") != NULL);
    tt_image_fini(&image);
    tt_data_close(data);
    tt_shelf_end();
}

// ---- NumPy -------------------------------------------------------------------

static void write_npy(const char *name, int version, const char *dictionary,
                      const void *data, int64_t n)
{
    char file[1024] = "\x93NUMPY";
    const size_t length = strlen(dictionary);
    const int64_t start = version == 1 ? 10 : 12;
    file[6] = (char)version;
    file[8] = (char)length;
    memcpy(file + start, dictionary, length);
    memcpy(file + start + length, data, (size_t)n);
    tt_shelf_write(name, file, start + (int64_t)length + n);
}

static const char float_2_3[] =
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }     \n";
static const float six[] = {1, 2, 3, 4, 5, 6.5F};

TEST(npy_of_features_has_labels_beside_it)
{
    static const int64_t labels[] = {4, 1};
    tt_shelf_begin();
    for (int version = 1; version <= 3; version++) {
        write_npy("x_train.npy", version, float_2_3, six, sizeof six);
        write_npy("y_train.npy", 1,
                  "{'shape': (2L,), 'fortran_order': False, 'descr': \"<i8\"}",
                  labels, sizeof labels);
        tt_data *data = tt_shelf_open("data=npy data.path=. data.holdout=0");
        CHECK(data->train->n == 2 && data->train->channels == 3);
        CHECK(data->train->height == 1 && data->train->classes == 5);
        CHECK(tt_shelf_pixel(data->train, 1, 2) == 6.5F);
        CHECK(tt_shelf_label(data->train, 0) == 4);
        tt_data_close(data);
    }
    write_npy("x_test.npy", 1, float_2_3, six, sizeof six);
    static const int8_t other[] = {6, 0};
    write_npy("y_test.npy", 1,
              "{'shape': (2,1), 'fortran_order': False, 'descr': '|i1'}", other,
              sizeof other);
    tt_data *data = tt_shelf_open("data=npy data.path=.");
    CHECK(data->train->n == 2 && data->val->n == 2);
    CHECK(data->train->classes == 7 && data->val->classes == 7);
    CHECK(tt_shelf_label(data->val, 0) == 6);
    tt_data_close(data);
    tt_shelf_starves("data=npy data.path=.");
    tt_shelf_end();
}

TEST(npy_of_images_may_have_channels_at_either_end)
{
    static const uint8_t one[] = {0};
    uint8_t bytes[2 * 2 * 3];
    double wide[2 * 2 * 3];
    for (int i = 0; i < 12; i++)
        wide[i] = bytes[i] = (uint8_t)(10 * i);
    tt_shelf_begin();
    write_npy("labels.npy", 1,
              "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}", one,
              1);
    // The same image four times: pixel (1, 0), green, is 70 or 60.
    static const char *const dictionaries[] = {
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2, 2, 3)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 2, 2, 3)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 3, 2, 2)}",
        "{'descr': '<f8', 'fortran_order': False, 'shape': (1, 3, 2, 2)}"};
    for (int i = 0; i < 4; i++) {
        const bool is_float = i % 2 == 1;
        write_npy("images.npy", 1, dictionaries[i],
                  is_float ? (const void *)wide : bytes,
                  is_float ? (int64_t)sizeof wide : (int64_t)sizeof bytes);
        tt_data *data =
            tt_shelf_open("data=npy data.path=images.npy data.holdout=0");
        CHECK(data->train->channels == 3 && data->train->height == 2);
        CHECK(tt_shelf_pixel(data->train, 0, is_float ? 4 + 2 : 2 * 3 + 1) ==
              (i < 2 ? 70 : 60));
        tt_data_close(data);
    }
    tt_shelf_end();
}

TEST(npy_of_whole_numbers_is_tokens)
{
    static const uint8_t big[] = {0, 1, 0, 2, 1, 0, 0, 4, 0, 5, 0, 6};
    static const int32_t want[] = {1, 2, 256, 4, 5, 6};
    tt_shelf_begin();
    write_npy("train.npy", 1,
              "{'descr': '>u2', 'fortran_order': False, 'shape': (6,)}", big,
              sizeof big);
    tt_data *data =
        tt_shelf_open("data=npy data.path=train.npy data.holdout=0");
    tt_shelf_tokens(data->train, want, 6);
    tt_data_close(data);
    tt_shelf_end();
}

TEST(npy_refuses_what_it_cannot_use)
{
    static const struct bad {
        const char *dictionary, *says;
    } bad[] = {
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}",
         "Fortran order"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}",
         "structures"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}", "type <c8"},
        {"{'descr': '<f1', 'fortran_order': False, 'shape': (12,)}",
         "type <f1"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4)}",
         "make 32 bytes, and 24 follow"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, "
         "4294967296)}",
         "more than"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999"
         "999, 0)}",
         "too large"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "one number"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,2,3,4,5,6,7,8,9"
         ")}",
         "more than 8"},
        {"{'descr': '<f4', 'fortran_order': False}", "is missing"},
        {"{'descr': '<f4', 'descr': '<f4', 'shape': (6,)}", "twice"},
        {"{'descr': '<f4' 'shape': (6,)}", "comma"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)} x",
         "follows its end"},
        {"", "{ is missing"},
        {"{'descr': '", "no end"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}",
         "only token ids"},
    };
    tt_shelf_begin();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_npy("x.npy", 1, bad[i].dictionary, six, sizeof six);
        tt_shelf_refuses("data=npy data.path=x.npy", bad[i].says);
    }
    write_npy("x.npy", 4, float_2_3, six, sizeof six);
    tt_shelf_refuses("data=npy data.path=x.npy", "version 4.0");
    write_npy("x.npy", 1, float_2_3, six, sizeof six);
    tt_shelf_refuses("data=npy data.path=x.npy", "labels are not beside it");
    write_npy("y.npy", 1, float_2_3, six, sizeof six);
    tt_shelf_refuses("data=npy data.path=x.npy",
                     "row 0 of the labels is not one-hot");
    static const int64_t negative[] = {0, -1};
    write_npy("y.npy", 1,
              "{'descr': '<i8', 'fortran_order': False, 'shape': (2,)}",
              negative, sizeof negative);
    tt_shelf_refuses("data=npy data.path=x.npy", "label 1 is negative");
    tt_shelf_write("x.npy", "\x93NUMPY\1\0\xff\xff", 10);
    tt_shelf_refuses("data=npy data.path=x.npy", "not a .npy file");
    tt_shelf_write("x.npy", "\x93NUMPY\1\0\xff\xff{}", 12);
    tt_shelf_refuses("data=npy data.path=x.npy", "should have 65535 bytes");
    tt_shelf_end();
}

// A file that NumPy wrote, which fuzzing starts from too.
static void put_corpus(const char *folder, const char *name, const char *as)
{
    static uint8_t bytes[8192];
    char path[2048];
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/npz/%s", folder, name);
    FILE *file = fopen(path, "rb");
    CHECK_MSG(file != NULL, "there is no %s", path);
    const size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    tt_shelf_write(as, bytes, (int64_t)n);
}

TEST(npz_files_hold_arrays_by_their_names)
{
    char folder[1024];
    CHECK(getcwd(folder, sizeof folder) != NULL);
    tt_shelf_begin();
    put_corpus(folder, "stored", "a.npz"); // x: 4 x 6 halves, y
    put_corpus(folder, "packed", "b.npz"); // x_train, y_train, x_test, y_test
    put_corpus(folder, "tokens", "c.npz"); // one list of ids
    put_corpus(folder, "damaged", "d.npz");
    put_corpus(folder, "cut", "e.npz");
    tt_data *data = tt_shelf_open("data=npy data.path=a.npz data.holdout=0.25");
    CHECK(data->train->n == 3 && data->val->n == 1);
    CHECK(data->train->channels == 6 && data->train->classes == 3);
    CHECK(tt_shelf_label(data->val, 0) == 1);
    CHECK(tt_shelf_pixel(data->train, 0, 3) == 1.5F);
    CHECK(tt_shelf_pixel(data->train, 1, 0) == 3.0F);
    tt_data_close(data);
    data = tt_shelf_open("data=npy data.path=b.npz");
    CHECK(data->train->n == 4 && data->val->n == 2);
    CHECK(tt_shelf_pixel(data->train, 0, 3) == 1.5F);
    CHECK(tt_shelf_pixel(data->val, 0, 3) == 2.5F);
    CHECK(tt_shelf_label(data->train, 2) == 2 && data->val->classes == 3);
    tt_data_close(data);
    data = tt_shelf_open("data=npy data.path=c.npz data.holdout=0.5");
    static const int32_t ids[] = {0, 1, 2,  3,  4,  5,  6, 7,
                                  8, 9, 10, 11, 12, 13, 14};
    CHECK(data->train->kind == TT_DATA_TOKENS && data->train->n == 15);
    tt_shelf_tokens(data->train, ids, 15);
    tt_data_close(data);
    data = tt_shelf_open("data=npy data.path=a.npz/x.npy "
                         "data.labels=b.npz/y_train.npy data.holdout=0");
    CHECK(data->train->n == 4);
    tt_data_close(data);
    tt_shelf_refuses("data=npy data.path=a.npz/z.npy",
                     "a.npz/z.npy: there is no such array in it");
    tt_shelf_refuses("data=npy data.path=d.npz", "d.npz");
    tt_shelf_refuses("data=npy data.path=e.npz", "e.npz: no zip archive");
    tt_shelf_starves("data=npy data.path=b.npz");
    tt_shelf_end();
}

TEST(halves_are_read_as_numpy_reads_them)
{
    static const uint16_t half[] = {0x0000, 0x3c00, 0xc000, 0x3800, 0x7bff,
                                    0x0400, 0x0001, 0x7c00, 0x8000, 0x3555};
    static const float want[] = {
        0,        1,        -2,       0.5F,  65504,
        0x1p-14F, 0x1p-24F, INFINITY, -0.0F, 0.333251953125F};
    float got[10];
    tt_number_to_f32((tt_number){'f', 2, false}, half, 10, got);
    CHECK(memcmp(got, want, sizeof got) == 0);
    const uint8_t big[] = {0x3c, 0x00, 0x7e, 0x00};
    tt_number_to_f32((tt_number){'f', 2, true}, big, 2, got);
    CHECK(got[0] == 1 && isnan(got[1]));
}

TEST(one_hot_labels_are_classes)
{
    static const uint8_t x[] = {1, 2, 3, 4, 5, 6};
    static const uint8_t hot[] = {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0};
    static const uint8_t two[] = {0, 1, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0};
    static const uint8_t none[] = {0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0};
    static const float soft[] = {0, 1, 0, 0, .5F, .5F, 0, 0, 0, 0, 1, 0};
    static const float real[] = {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0};
    tt_shelf_begin();
    write_npy("x.npy", 1,
              "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 2), }", x,
              sizeof x);
    const char *bytes =
        "{'descr': '|b1', 'fortran_order': False, 'shape': (3, 4), }";
    const char *floats =
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }";
    const char *settings = "data=npy data.path=x.npy data.holdout=0";
    for (int k = 0; k < 2; k++) {
        if (k == 0)
            write_npy("y.npy", 1, bytes, hot, sizeof hot);
        else
            write_npy("y.npy", 1, floats, real, sizeof real);
        tt_data *data = tt_shelf_open(settings);
        CHECK(data->train->classes == 4); // the last does not occur
        CHECK(tt_shelf_label(data->train, 0) == 1 &&
              tt_shelf_label(data->train, 1) == 0 &&
              tt_shelf_label(data->train, 2) == 2);
        tt_data_close(data);
    }
    write_npy("y.npy", 1, bytes, two, sizeof two);
    tt_shelf_refuses(settings, "y.npy: row 1 of the labels is not one-hot");
    write_npy("y.npy", 1, bytes, none, sizeof none);
    tt_shelf_refuses(settings, "row 1 of the labels is not one-hot: all is 0");
    write_npy("y.npy", 1, floats, soft, sizeof soft);
    tt_shelf_refuses(settings, "row 1 of the labels is not one-hot");
    tt_shelf_end();
}
