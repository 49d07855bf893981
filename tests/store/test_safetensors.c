// The tensor file: the published bytes, round trips, and headers that lie.

#include "base/alloc.h"
#include "base/str.h"
#include "store/safetensors.h"
#include "test.h"

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const unsigned char smallest[] =
    "\x38\0\0\0\0\0\0\0"
    "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}  "
    "\x00\x00\x80\x3f\x00\x00\x00\x40";
enum { SMALLEST_BYTES = sizeof(smallest) - 1 };

static char folder[] = "/tmp/tutti-safetensors-XXXXXX";

static void enter(void)
{
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
}

static void leave(void)
{
    unlink("f");
    CHECK(chdir("/") == 0 && rmdir(folder) == 0); // no temporary file is left
    CHECK(tt_alloc_live() == 0);
}

static void put(const void *bytes, int64_t n)
{
    FILE *f = fopen("f", "wb");
    CHECK(f != NULL && fwrite(bytes, 1, (size_t)n, f) == (size_t)n);
    CHECK(fclose(f) == 0);
}

static void put_header(const char *header, int64_t data_bytes)
{
    tt_str text = {0};
    const uint64_t n = strlen(header);
    tt_str_add_bytes(&text, (const char *)&n, 8);
    tt_str_add(&text, header);
    for (int64_t i = 0; i < data_bytes; i++)
        tt_str_add_bytes(&text, "x", 1);
    put(text.text, text.n);
    tt_str_fini(&text);
}

static bool opens(void)
{
    tt_safetensors *file = NULL;
    const tt_status status = tt_safetensors_open("f", &file);
    CHECK((status == TT_OK) == (file != NULL));
    CHECK(status == TT_OK || strncmp(tt_error_message(), "f: ", 3) == 0);
    tt_safetensors_close(file);
    return status == TT_OK;
}

static bool refuses(const char *header, int64_t data_bytes, const char *message)
{
    put_header(header, data_bytes);
    const bool is_open = opens();
    const bool is_same = !is_open && strcmp(tt_error_message(), message) == 0;
    if (!is_same)
        fprintf(stderr, "%s\n", is_open ? "opened" : tt_error_message());
    return is_same;
}

TEST(safetensors_smallest_example)
{
    enter();
    put(smallest, SMALLEST_BYTES);
    tt_safetensors *file = NULL;
    CHECK(tt_safetensors_open("f", &file) == TT_OK);
    CHECK(tt_safetensors_count(file) == 1);
    const tt_safetensor *t = tt_safetensors_find(file, "a");
    CHECK(t != NULL && t == tt_safetensors_at(file, 0));
    CHECK(strcmp(t->dtype, "F32") == 0 && t->ndim == 1 && t->shape[0] == 2);
    CHECK(t->offset == 0 && t->bytes == 8);
    CHECK(memcmp(t->data, smallest + SMALLEST_BYTES - 8, 8) == 0);
    CHECK(tt_safetensors_find(file, "b") == NULL);
    CHECK(tt_safetensors_note_find(file, "format") == NULL);
    tt_safetensors_close(file);
    leave();
}

TEST(safetensors_writes_the_smallest_example)
{
    enter();
    const float data[] = {1, 2};
    const int64_t shape[] = {2};
    const tt_safetensor t = {"a", "F32", 1, shape, 0, 0, data};
    unsigned char back[SMALLEST_BYTES + 1];
    CHECK(tt_safetensors_write("f", &t, 1, NULL, 0) == TT_OK);
    FILE *f = fopen("f", "rb");
    CHECK(f != NULL && fread(back, 1, sizeof(back), f) == SMALLEST_BYTES);
    fclose(f);
    CHECK(memcmp(back, smallest, SMALLEST_BYTES) == 0);
    leave();
}

TEST(safetensors_round_trip)
{
    enter();
    const double wide[6] = {1, 2, 3, 4, 5, 6};
    const int64_t count = 77;
    const unsigned char bytes[3] = {7, 8, 9};
    const int64_t s23[] = {2, 3}, s3[] = {3}, s0[] = {5, 0, 7}, s4[] = {2, 1};
    const tt_safetensor in[] = {
        {"z\"\\\n\xc3\xa9", "U8", 1, s3, 0, 0, bytes},
        {"empty", "F32", 3, s0, 0, 0, NULL},
        {"w", "F64", 2, s23, 0, 0, wide},
        {"n", "I64", 0, NULL, 0, 0, &count},
        {"", "F4", 2, s4, 0, 0, bytes},
    };
    const tt_safetensors_note notes[] = {{"format", "pt"}, {"k", "v \"q\""}};
    CHECK(tt_safetensors_write("f", in, 5, notes, 2) == TT_OK);
    tt_safetensors *file = NULL;
    CHECK(tt_safetensors_open("f", &file) == TT_OK);
    CHECK(tt_safetensors_count(file) == 5);
    static const int order[] = {3, 2, 1, 0, 4};
    for (int i = 0; i < 5; i++) {
        const tt_safetensor *want = &in[order[i]];
        const tt_safetensor *t = tt_safetensors_find(file, want->name);
        CHECK(t != NULL && strcmp(t->dtype, want->dtype) == 0);
        CHECK(t->bytes == 0 || t == tt_safetensors_at(file, i));
        CHECK(t->ndim == want->ndim);
        CHECK(want->data == NULL ||
              memcmp(t->data, want->data, (size_t)t->bytes) == 0);
        CHECK((uintptr_t)t->data % (uint64_t)(t->bytes > 7 ? 8 : 1) == 0);
    }
    int64_t n = 0;
    CHECK(strcmp(tt_safetensors_notes(file, &n)[1].value, "v \"q\"") == 0);
    CHECK(n == 2);
    CHECK(strcmp(tt_safetensors_note_find(file, "format"), "pt") == 0);
    tt_safetensors_close(file);
    leave();
}

TEST(safetensors_may_hold_nothing)
{
    enter();
    CHECK(tt_safetensors_write("f", NULL, 0, NULL, 0) == TT_OK && opens());
    put_header("{}", 0);
    CHECK(opens());
    put_header("{\"__metadata__\":{}}   ", 0);
    CHECK(opens());
    CHECK(refuses("{}", 1,
                  "f: the tensors need 0 bytes but the file has 1 for them"));
    leave();
}

TEST(safetensors_cut_anywhere_are_refused)
{
    enter();
    for (int n = 0; n < SMALLEST_BYTES; n++) {
        put(smallest, n);
        CHECK_MSG(!opens(), "%d bytes", n);
    }
    unsigned char longer[SMALLEST_BYTES + 1] = {0};
    memcpy(longer, smallest, SMALLEST_BYTES);
    put(longer, sizeof(longer));
    CHECK(!opens());
    leave();
}

TEST(safetensors_survive_every_changed_byte)
{
    enter();
    unsigned char bytes[SMALLEST_BYTES];
    int n_open = 0;
    for (int i = 0; i < SMALLEST_BYTES; i++)
        for (int bit = 0; bit < 8; bit++) {
            memcpy(bytes, smallest, SMALLEST_BYTES);
            bytes[i] ^= (unsigned char)(1 << bit);
            put(bytes, SMALLEST_BYTES);
            n_open += opens();
        }
    CHECK(n_open >= 64 && n_open < 100); // the data, the name, blanks, I32/U32
    leave();
}

static bool is_called_text(const char *bytes, int64_t n)
{
    put(bytes, n);
    CHECK(!opens());
    return strstr(tt_error_message(), "f: this is text, not a model; ") != NULL;
}

// What people give by mistake is called by its name.
TEST(safetensors_calls_text_text)
{
    enter();
    char cut[1200];
    for (int i = 0; i < 1200; i++) // a character of three bytes over byte 512
        cut[i] = "\xe2\x82\xac"[i % 3];
    CHECK(is_called_text("To be, or not to be.\n", 21));
    CHECK(is_called_text("hi", 2));
    CHECK(is_called_text("{\"a\": [1, 2, 3]}", 16));
    CHECK(is_called_text("\xef\xbb\xbf\tGr\xc3\xbc\xc3\x9f"
                         "e\r\n",
                         13));
    CHECK(is_called_text(cut, sizeof cut));
    CHECK(!is_called_text("To be, \xff or not", 15));
    CHECK(!is_called_text("To be, \0 or not", 15));
    CHECK(!is_called_text("GGUF\3\0\0\0\1\0\0\0\0\0\0\0", 16));
    put("", 0);
    CHECK(!opens());
    CHECK(strcmp(tt_error_message(),
                 "f: not a safetensors file: it is empty") == 0);
    const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid";
    put(pointer, sizeof pointer - 1);
    CHECK(!opens());
    CHECK(strstr(tt_error_message(), "f: a pointer of Git LFS") != NULL);
    leave();
}

TEST(safetensors_headers_that_lie_are_refused)
{
    enter();
    const unsigned char huge[] = "\x01\xe1\xf5\x05\0\0\0\0{}";
    put(huge, 10);
    CHECK(!opens());
    CHECK(strstr(tt_error_message(),
                 "f: not a safetensors file: its header would be longer than "
                 "100000000 bytes") == tt_error_message());
    put("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    CHECK(!opens());
    put("\1\0", 2);
    CHECK(!opens());
    CHECK(strcmp(tt_error_message(),
                 "f: not a safetensors file: it has only 2 bytes") == 0);
    put("\x03\0\0\0\0\0\0\0{}", 10);
    CHECK(!opens());
    CHECK(strcmp(tt_error_message(),
                 "f: cut short, or not a safetensors file: the header should "
                 "have 3 bytes but 2 are left") == 0);
    put("\0\0\0\0\0\0\0\0", 8);
    CHECK(!opens());
    CHECK(refuses(" {}", 0,
                  "f: not a safetensors file: the header does not "
                  "begin with {"));
    CHECK(refuses("{} x", 0, "f: header:1:4: 'x' where the end should be"));
    CHECK(refuses("{\"a\":1}", 0,
                  "f: tensor \"a\": must have dtype, shape and "
                  "two data_offsets, nothing else"));
    CHECK(refuses("{\"__metadata__\":{\"a\":1}}", 0,
                  "f: __metadata__ \"a\" must be text"));
    CHECK(refuses("{\"__metadata__\":[]}", 0,
                  "f: __metadata__ must map text to text"));
    leave();
}

#define ENTRY(type, shape, range)                                              \
    "{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" range "}"

TEST(safetensors_duplicates_are_refused)
{
    enter();
    put_header("{\"a\":" ENTRY("U8", "[1]", "[0,1]") ",\"a\":" ENTRY(
                   "U8", "[1]", "[0,1]") "}",
               1);
    CHECK(!opens() && strstr(tt_error_message(), "duplicate") != NULL);
    put_header("{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0);
    CHECK(!opens());
    put_header("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],"
               "\"data_offsets\":[0,1]}}",
               1);
    CHECK(!opens());
    leave();
}

TEST(safetensors_overlaps_and_holes_are_refused)
{
    enter();
    put_header("{\"b\":" ENTRY("U8", "[2]", "[2,4]") ",\"a\":" ENTRY(
                   "U8", "[2]", "[0,2]") "}",
               4);
    CHECK(opens());
    CHECK(refuses("{\"a\":" ENTRY("U8", "[2]", "[0,2]") ",\"b\":" ENTRY(
                      "U8", "[2]", "[1,3]") "}",
                  3,
                  "f: tensor \"b\": begins at 1, but the one before it ends at "
                  "2"));
    CHECK(refuses("{\"a\":" ENTRY("U8", "[2]", "[0,2]") ",\"b\":" ENTRY(
                      "U8", "[2]", "[3,5]") "}",
                  5,
                  "f: tensor \"b\": begins at 3, but the one before it ends at "
                  "2"));
    CHECK(refuses("{\"a\":" ENTRY("U8", "[2]", "[1,3]") "}", 3,
                  "f: tensor \"a\": begins at 1, but the one before it ends at "
                  "0"));
    CHECK(refuses("{\"a\":" ENTRY("U8", "[2]", "[0,2]") "}", 3,
                  "f: the tensors need 2 bytes but the file has 3 for them"));
    CHECK(refuses("{\"a\":" ENTRY("U8", "[2]", "[0,2]") "}", 1,
                  "f: the tensors need 2 bytes but the file has 1 for them"));
    leave();
}

TEST(safetensors_wrong_types_and_sizes_are_refused)
{
    enter();
    static const char *const bad[] = {
        ENTRY("F32", "[2]", "[0,4]"),
        ENTRY("F32", "[1]", "[4,0]"),
        ENTRY("F33", "[1]", "[0,4]"),
        ENTRY("f32", "[1]", "[0,4]"),
        ENTRY("F32", "[-1]", "[0,4]"),
        ENTRY("F32", "[1.0]", "[0,4]"),
        ENTRY("F32", "[\"1\"]", "[0,4]"),
        ENTRY("F32", "1", "[0,4]"),
        ENTRY("F32", "[1]", "[0]"),
        ENTRY("F32", "[1]", "[0,4,4]"),
        ENTRY("F32", "[1]", "[0,4.0]"),
        ENTRY("F32", "[1]", "[-4,0]"),
        ENTRY("F32", "[1]", "{\"0\":0,\"1\":4}"),
        ENTRY("F32", "[1]", "[0,4],\"more\":1"),
        ENTRY("F4", "[9]", "[0,4]"),
        ENTRY("F32", "[99999999999999999999]", "[0,4]"),
        ENTRY("F32", "[4294967296,4294967296]", "[0,4]"),
        ENTRY("F32", "[9223372036854775807,2]", "[0,4]"),
        ENTRY("F32", "[4611686018427387904]", "[0,0]"),
        ENTRY("F32", "[4294967296,4294967296,0]", "[0,0]"),
        ENTRY("U8", "[9223372036854775807]", "[0,9223372036854775807]"),
    };
    for (int i = 0; i < (int)(sizeof(bad) / sizeof(bad[0])); i++) {
        tt_str header = {0};
        tt_str_addf(&header, "{\"a\":%s}", bad[i]);
        put_header(tt_str_text(&header), 4);
        CHECK_MSG(!opens(), "%s", bad[i]);
        tt_str_fini(&header);
    }
    put_header("{\"a\":" ENTRY("F32", "[]", "[0,4]") "}", 4);
    CHECK(opens());
    put_header("{\"a\":" ENTRY("F6_E2M3", "[4]", "[0,3]") "}", 3);
    CHECK(opens());
    leave();
}

TEST(safetensors_bad_paths_are_one_sentence)
{
    enter();
    tt_safetensors *file = NULL;
    CHECK(tt_safetensors_open("none", &file) == TT_ERR_IO);
    CHECK(strcmp(tt_error_message(),
                 "none: cannot be opened: No such file or directory") == 0);
    CHECK(tt_safetensors_open(".", &file) == TT_ERR_IO);
    CHECK(strcmp(tt_error_message(), ".: not a regular file") == 0);
    CHECK(mkfifo("f", 0600) == 0);
    CHECK(tt_safetensors_open("f", &file) == TT_ERR_IO);
    CHECK(tt_safetensors_write("none/f", NULL, 0, NULL, 0) == TT_ERR_IO);
    CHECK(mkdir("d", 0700) == 0);
    CHECK(tt_safetensors_write("d", NULL, 0, NULL, 0) == TT_ERR_IO);
    CHECK(rmdir("d") == 0);
    tt_safetensors_close(NULL);
    leave();
}

TEST(safetensors_writer_refuses_what_readers_would)
{
    enter();
    put("old", 3);
    const int64_t two[] = {2}, minus[] = {-1};
    const tt_safetensor bad[][2] = {
        {{"a", "U8", 1, two, 0, 0, "xy"}, {"a", "U8", 1, two, 0, 0, "xy"}},
        {{"a", "U8", 1, two, 0, 0, "xy"}, {"b", "U9", 1, two, 0, 0, "xy"}},
        {{"a", "U8", 1, two, 0, 0, "xy"}, {"b", "U8", 1, two, 0, 0, NULL}},
        {{"a", "U8", 1, two, 0, 0, "xy"}, {"b", "U8", 1, minus, 0, 0, "xy"}},
        {{"a", "U8", 1, two, 0, 0, "xy"}, {"\xff", "U8", 1, two, 0, 0, "xy"}},
        {{"a", "U8", 1, two, 0, 0, "xy"},
         {"__metadata__", "U8", 1, two, 0, 0, "xy"}},
    };
    for (int i = 0; i < 6; i++)
        CHECK_MSG(tt_safetensors_write("f", bad[i], 2, NULL, 0) == TT_ERR_ARG,
                  "%d", i);
    struct stat info;
    CHECK(stat("f", &info) == 0 && info.st_size == 3); // the old one is there
    leave();
}

TEST(safetensors_full_disk_leaves_the_old_file)
{
    enter();
    put("old", 3);
    static char data[1 << 16];
    const int64_t shape[] = {1 << 16};
    const tt_safetensor t = {"a", "U8", 1, shape, 0, 0, data};
    const struct rlimit limit = {1 << 12, 1 << 12};
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(tt_safetensors_write("f", &t, 1, NULL, 0) == TT_ERR_IO);
    CHECK(strcmp(tt_error_message(), "f: cannot be written: File too large") ==
          0);
    struct stat info;
    CHECK(stat("f", &info) == 0 && info.st_size == 3);
    leave();
}

TEST(safetensors_large_headers_cost_bounded_memory)
{
    static const char *const pieces[] = {"{", "[", "{\"\":", "[[],", ",", ":"};
    enter();
    for (int i = 0; i < 6; i++) {
        tt_str header = {0};
        tt_str_add(&header, "{\"a\":[");
        while (header.n < 4 << 20)
            tt_str_add(&header, pieces[i]);
        put_header(tt_str_text(&header), 0);
        CHECK(!opens());
        tt_str_clear(&header);
        tt_str_add(&header, "{\"__metadata__\":{\"\":\"\"");
        for (int64_t k = 0; header.n < 12 << 20; k++)
            tt_str_addf(&header, ",\"%llx\":\"\"", (long long)k);
        tt_str_add(&header, "}}");
        put_header(tt_str_text(&header), 0);
        CHECK(!opens());
        CHECK(strcmp(tt_error_message(),
                     "f: header: would need more memory than its own size and "
                     "64 MiB") == 0);
        tt_str_fini(&header);
    }
    leave();
}

TEST(safetensors_survive_every_allocation_failure)
{
    enter();
    const float data[] = {1, 2};
    const int64_t shape[] = {2};
    const tt_safetensor t = {"a", "F32", 1, shape, 0, 0, data};
    const tt_safetensors_note note = {"format", "pt"};
    for (int64_t k = 1; k < 100; k++) {
        tt_safetensors *file = NULL;
        tt_alloc_fail_at(k);
        tt_status status = tt_safetensors_write("f", &t, 1, &note, 1);
        if (status == TT_OK)
            status = tt_safetensors_open("f", &file);
        const bool is_done = tt_alloc_count() < k;
        tt_alloc_fail_at(0);
        CHECK(status == (is_done ? TT_OK : TT_ERR_NOMEM));
        tt_safetensors_close(file);
        CHECK(tt_alloc_live() == 0);
        if (is_done) {
            leave();
            return;
        }
    }
    CHECK_MSG(false, "it never finished");
}

TEST(safetensors_of_others_are_read)
{
    static const char path[] = "../shared/data/reference/gpt2-tiny.safetensors";
    if (access(path, R_OK) != 0)
        SKIP("there is no ../shared/data/reference");
    tt_safetensors *file = NULL;
    CHECK(tt_safetensors_open(path, &file) == TT_OK);
    CHECK(tt_safetensors_count(file) > 10);
    for (int64_t i = 0; i < tt_safetensors_count(file); i++) {
        const tt_safetensor *t = tt_safetensors_at(file, i);
        CHECK(tt_safetensors_find(file, t->name) == t);
        CHECK(tt_safetensors_bits(t->dtype) > 0);
    }
    tt_safetensors_close(file);
}

// A page that is gone kills whoever looks at it; copies and writes end with a sentence.
TEST(safetensors_that_are_cut_while_open_are_errors)
{
    enum { N = 1 << 16 };
    static char room[N];
    char header[128];
    tt_safetensors *file = NULL;
    enter();
    snprintf(
        header, sizeof header,
        "{\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", N,
        N);
    put_header(header, N);
    CHECK_OK(tt_safetensors_open("f", &file));
    const tt_safetensor *t = tt_safetensors_find(file, "a");
    CHECK_OK(tt_safetensor_copy(t, 1, N - 1, room));
    CHECK(room[0] == 'x' && room[N - 2] == 'x');
    CHECK(truncate("f", N / 2) == 0);
    CHECK(tt_safetensor_copy(t, 0, N, room) == TT_ERR_IO);
    CHECK(strstr(tt_error_message(), "f: ends at byte 32768: it became") !=
          NULL);
    CHECK(tt_safetensors_write("g", t, 1, NULL, 0) == TT_ERR_IO);
    CHECK_MSG(strstr(tt_error_message(), "became shorter") != NULL, "%s",
              tt_error_message());
    CHECK(strcmp(tt_safetensors_at(file, 0)->name, "a") == 0);
    put_header(header, N);
    CHECK(rename("f", "h") == 0);
    put_header(header, N);
    CHECK(tt_safetensor_copy(t, 0, N, room) == TT_ERR_IO);
    CHECK(strstr(tt_error_message(), "was replaced by another") != NULL);
    tt_safetensors_close(file);
    unlink("h");
    leave();
}
