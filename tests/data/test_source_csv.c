// Tables of numbers with labels.

#include "data/shelf.h"
#include "data/source/csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(csv_numbers_are_those_of_strtod)
{
    static const char *const good[] = {"0",
                                       "1",
                                       "-1",
                                       "+1.5",
                                       "1.",
                                       ".5",
                                       "1e3",
                                       "1E-3",
                                       "0.1",
                                       "255",
                                       " 12 ",
                                       "123456789012345678",
                                       "1e-300",
                                       "0.3e+10",
                                       "1e300",
                                       "-0.0",
                                       "2.5e-8",
                                       "0000000000000000000001",
                                       "3.14159265358979323846264338327950288",
                                       "4.35",
                                       "1e22",
                                       "1e23"};
    static const char *const bad[] = {"",    " ",     "a",   "1a",  "nan",
                                      "inf", "1e",    "1e+", "0x1", "1 2",
                                      ".",   "1e999", "--1", "1,5", "-"};
    double value = 0;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const tt_csv_field field = {.p = good[i],
                                    .n = (int64_t)strlen(good[i])};
        CHECK_MSG(tt_csv_number(&field, &value), "%s", good[i]);
        CHECK_MSG(value == strtod(good[i], NULL), "%s is %.17g", good[i],
                  value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const tt_csv_field field = {.p = bad[i], .n = (int64_t)strlen(bad[i])};
        CHECK_MSG(!tt_csv_number(&field, &value), "%s", bad[i]);
    }
    srand(1);
    for (int i = 0; i < 20000; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s%d.%0*de%d", rand() % 2 ? "-" : "",
                 rand() % 100000, 1 + rand() % 9, rand() % 1000000,
                 rand() % 40 - 20);
        const tt_csv_field field = {.p = text, .n = (int64_t)strlen(text)};
        CHECK(tt_csv_number(&field, &value) && value == strtod(text, NULL));
    }
}

TEST(csv_with_names_finds_the_label)
{
    tt_shelf_begin();
    tt_shelf_text("a.csv", "label,x,y\n2,0.5,1\n0,1.5,2\n1,2.5,3\n");
    tt_data *data = tt_shelf_open("data=csv data.path=a.csv data.holdout=0.34");
    CHECK(data->train->n == 1 && data->val->n == 2);
    CHECK(data->train->channels == 2 && data->train->height == 1);
    CHECK(data->train->classes == 3 && data->val->classes == 3);
    CHECK(tt_shelf_label(data->train, 0) == 2);
    CHECK(tt_shelf_label(data->val, 1) == 1);
    CHECK(tt_shelf_pixel(data->val, 1, 0) == 2.5F);
    CHECK(tt_shelf_pixel(data->val, 1, 1) == 3.0F);
    tt_data_close(data);
    data =
        tt_shelf_open("data=csv data.path=a.csv data.holdout=0 data.label=y");
    CHECK(tt_shelf_label(data->train, 2) == 3 && data->train->classes == 4);
    tt_data_close(data);
    data =
        tt_shelf_open("data=csv data.path=a.csv data.holdout=0 data.label=2");
    CHECK(tt_shelf_label(data->train, 0) == 1 && data->train->n == 3);
    tt_data_close(data);
    tt_shelf_starves("data=csv data.path=a.csv");
    tt_shelf_end();
}

TEST(csv_labels_may_be_texts)
{
    tt_shelf_begin();
    tt_shelf_text("a.csv", "\xef\xbb\xbf"
                           "5.1,3.5,Iris-setosa\r\n"
                           "7.0,3.2,\"a \"\"big\"\" one\"\r\n"
                           "6.3,3.3, Iris-virginica\r\n"
                           "\"5\",3.5,\"Iris-setosa\"\r\n\r\n");
    tt_data *data = tt_shelf_open("data=csv data.path=a.csv data.holdout=0");
    const tt_source *s = data->train;
    CHECK(s->n == 4 && s->classes == 3 && s->channels == 2);
    CHECK(strcmp(s->class_name[0], "Iris-setosa") == 0);
    CHECK(strcmp(s->class_name[1], "Iris-virginica") == 0);
    CHECK(strcmp(s->class_name[2], "a \"big\" one") == 0);
    CHECK(tt_shelf_label(s, 0) == 0 && tt_shelf_label(s, 1) == 2);
    CHECK(tt_shelf_label(s, 2) == 1 && tt_shelf_label(s, 3) == 0);
    CHECK(tt_shelf_pixel(s, 3, 0) == 5.0F);
    tt_data_close(data);
    tt_shelf_text("val.csv", "1,2,zebra\n3,4,Iris-virginica\n");
    data = tt_shelf_open("data=csv data.path=a.csv data.val=val.csv");
    CHECK(data->train->classes == 4 && data->val->classes == 4);
    CHECK(tt_shelf_label(data->val, 0) == 3);
    CHECK(tt_shelf_label(data->val, 1) == 1);
    tt_data_close(data);
    tt_shelf_starves("data=csv data.path=a.csv data.val=val.csv");
    tt_shelf_end();
}

TEST(csv_rows_may_be_images)
{
    tt_shelf_begin();
    tt_shelf_text("a.csv", "1,2,3,4,5,6,7,8,0\n9,8,7,6,5,4,3,255,1\n");
    tt_data *data = tt_shelf_open(
        "data=csv data.path=a.csv data.holdout=0 data.shape=2,2,2");
    CHECK(data->train->channels == 2 && data->train->height == 2);
    CHECK(tt_shelf_pixel(data->train, 0, 1) == 5); // pixel 0, channel 1
    CHECK(tt_shelf_pixel(data->train, 1, 7) == 255);
    tt_image image = {0};
    int32_t label;
    CHECK_OK(tt_source_read_image(data->train, 0, &image, &label));
    CHECK(!image.is_float);
    tt_image_fini(&image);
    tt_data_close(data);
    tt_shelf_refuses("data=csv data.path=a.csv data.shape=3,3",
                     "makes 9 numbers and a row has 8");
    tt_shelf_end();
}

TEST(csv_of_one_row_trains_on_it)
{
    tt_shelf_begin();
    tt_shelf_text("a.csv", "1,0\n");
    tt_data *data = tt_shelf_open("data=csv data.path=a.csv");
    CHECK(data->train->n == 1 && data->val == NULL);
    tt_data_close(data);
    tt_shelf_end();
}

TEST(csv_reads_any_row_of_many)
{
    char text[8192];
    int n = 0;
    for (int i = 0; i < 500; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%d;%d\n", i, i % 7);
    tt_shelf_begin();
    tt_shelf_text("a.csv", text);
    tt_data *data = tt_shelf_open("data=csv data.path=a.csv data.holdout=0.5 "
                                  "data.separator=semicolon");
    for (int i = 0; i < 250; i++) {
        CHECK(tt_shelf_pixel(data->val, i, 0) == (float)(250 + i));
        CHECK(tt_shelf_label(data->train, i) == i % 7);
    }
    tt_data_close(data);
    tt_shelf_end();
}

TEST(csv_names_the_place_of_an_error)
{
    static const struct bad {
        const char *text, *says;
    } bad[] = {
        {"a,b,label\n1,2,0\n1,x,0\n", "row 3, column 2 (b): \"x\" is not a "
                                      "number"},
        {"1,2,0\n1,,0\n", "row 2, column 2: it is empty"},
        {"1,2,0\n1,2\n", "row 2 has 2 fields and the first has 3"},
        {"1,2,0\n1,2,0,4\n", "row 2 has 4 fields and the first has 3"},
        {"1,2,0\n\n1,2,0\n", "row 2, column 1: it is empty"},
        {"1,2,0\n1,\"2,0\n", "row 2, column 2: \"2,0"},
        {"1,2,0\n1,\"2\"3,0\n", "a quote too many or too few"},
        {"1,2,0\n1,2,\n", "row 2, column 3: it is empty"},
        {"1,2,0\n1,nan,0\n", "\"nan\" is not a number"},
        {"1,2,0\n1,2,99999999\n", "row 2 has label 99999999"},
        {"1\n2\n", "it has one column"},
        {"", "it is empty"},
        {"\n\n", "it is empty"},
        {"a,b\n", "nothing to train on"},
    };
    tt_shelf_begin();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tt_shelf_text("a.csv", bad[i].text);
        tt_shelf_refuses("data=csv data.path=a.csv data.holdout=0",
                         bad[i].says);
    }
    tt_shelf_text("a.csv", "a,b\n1,0\n");
    tt_shelf_refuses("data=csv data.path=a.csv data.label=c",
                     "no column of the first row is called \"c\"");
    tt_shelf_refuses("data=csv data.path=a.csv data.label=2",
                     "there are 2 columns");
    tt_shelf_text("b.csv", "1,0,0\n");
    tt_shelf_refuses("data=csv data.path=a.csv data.val=b.csv",
                     "a.csv has 2 columns and b.csv 3");
    tt_shelf_end();
}

TEST(csv_finds_out_whether_the_first_row_has_names)
{
    static const struct {
        const char *text;
        int64_t rows, classes;
    } some[] = {
        {"0,1,2,label\n5,6,7,1\n8,9,1,0\n", 2, 2},
        {"0,1,2,label\n5,6,7,cat\n8,9,1,dog\n", 2, 2},
        {"0,1,2,kind\n5,6,7,cat\n8,9,1,dog\n", 2, 2},
        {"4,1,2,kind\n5,6,7,cat\n8,9,1,dog\n", 3, 3}, // may be a sample
        {"4,1,2,cat\n5,6,7,cat\n8,9,1,dog\n", 3, 2},
        {"0,1,2,cat\n5,6,7,cat\n8,9,1,dog\n", 3, 2},
        {"0,1,2,class\n5,6,7,class\n8,9,1,dog\n", 3, 2},
        {"0,1,2,3\n5,6,7,1\n", 2, 4}, // the same
        {"0,1,2,3,4,5,6,7\n5,6,7,1,2,3,4,0\n8,1,2,3,4,5,6,1\n", 2, 2},
        {"\"1\",\"2\",\"3\"\n4,5,1\n6,7,0\n", 2, 2},
        {"\"1\",\"2\",\"3\"\n\"4\",\"5\",\"1\"\n", 2, 4},
        {"a,b,3\n4,5,1\n6,7,0\n", 2, 2},
        {"1,2,3\n", 1, 4},
        {"\xef\xbb\xbf"
         "0,1,label\r\n4,5,1\r\n6,7,0",
         2, 2},
    };
    tt_shelf_begin();
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        tt_shelf_text("a.csv", some[i].text);
        tt_data *data =
            tt_shelf_open("data=csv data.path=a.csv data.holdout=0");
        CHECK_MSG(data->train->n == some[i].rows &&
                      data->train->classes == some[i].classes,
                  "%s: %lld rows, %lld classes", some[i].text,
                  (long long)data->train->n, (long long)data->train->classes);
        tt_data_close(data);
    }
    tt_shelf_text("a.csv", "0,1,2,label\n5,6,7,cat\n8,9,1,dog\n");
    tt_data *data =
        tt_shelf_open("data=csv data.path=a.csv data.holdout=0 data.header=no");
    CHECK(data->train->n == 3 && data->train->classes == 3);
    tt_data_close(data);
    tt_shelf_end();
}
