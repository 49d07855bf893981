// Token shards: llm.c, nanoGPT, Megatron.

#include "base/alloc.h"
#include "data/shelf.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int32_t count_to_20[] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,
                                      10, 11, 12, 13, 14, 15, 16, 17, 18, 19};

// Ids [first, first + n) as an llm.c shard; `says` is the count in its header.
static void write_llmc(const char *name, int32_t magic, int32_t version,
                       int32_t says, int32_t first, int32_t n)
{
    const int bytes = magic == 20240801 ? 4 : 2;
    uint8_t file[2048] = {0};
    const int32_t head[3] = {magic, version, says};
    memcpy(file, head, sizeof head);
    for (int32_t i = 0; i < n; i++) {
        file[1024 + bytes * i] = (uint8_t)(first + i);
        file[1024 + bytes * i + 1] = (uint8_t)((first + i) >> 8);
    }
    tt_shelf_write(name, file, 1024 + bytes * n);
}

static void write_plain(const char *name, int first, int n)
{
    uint16_t id[64];
    for (int i = 0; i < n; i++)
        id[i] = (uint16_t)(first + i);
    tt_shelf_write(name, id, 2 * n);
}

TEST(tokens_of_llmc_shards_are_one_stream)
{
    tt_shelf_begin();
    write_llmc("a_train_0.bin", 20240520, 1, 7, 0, 7);
    write_llmc("a_train_1.bin", 20240520, 1, 0, 7, 0);
    write_llmc("a_train_2.bin", 20240801, 7, 13, 7, 13);
    write_llmc("a_val_0.bin", 20240801, 7, 5, 300, 5);
    static const char *const ways[] = {
        "data=tokens data.path=.",
        "data=tokens data.path=*train*.bin data.val=*val*"};
    static const int32_t val[] = {300, 301, 302, 303, 304};
    for (int i = 0; i < 2; i++) {
        tt_data *data = tt_shelf_open(ways[i]);
        tt_shelf_tokens(data->train, count_to_20, 20);
        tt_shelf_tokens(data->val, val, 5);
        tt_data_close(data);
    }
    tt_shelf_starves(ways[0]);
    tt_shelf_end();
}

TEST(tokens_of_nanogpt_are_plain)
{
    tt_shelf_begin();
    write_plain("train.bin", 0, 20);
    write_plain("val.bin", 7, 6);
    tt_shelf_text("meta.pkl", "something else");
    tt_data *data = tt_shelf_open("data=tokens data.path=.");
    CHECK(data->train->classes == 0);
    tt_shelf_tokens(data->train, count_to_20, 20);
    tt_shelf_tokens(data->val, count_to_20 + 7, 6);
    tt_data_close(data);
    data = tt_shelf_open("data=tokens data.path=train.bin data.holdout=0.25");
    tt_shelf_tokens(data->train, count_to_20, 15);
    tt_shelf_tokens(data->val, count_to_20 + 15, 5);
    tt_data_close(data);
    data = tt_shelf_open("data=tokens data.path=train.bin data.holdout=0");
    CHECK(data->val == NULL && data->train->n == 20);
    tt_data_close(data);
    tt_shelf_end();
}

TEST(tokens_of_nanogpt_say_their_vocabulary)
{
    static const struct meta {
        const char *bytes;
        int64_t n, vocab;
    } metas[] = {
        {"\x80\x04}(\x8c\nvocab_size\x94KA\x8c\x04itos", 24, 65},
        {"\x80\x02}(X\n\0\0\0vocab_sizeq\x01M\x51\xc4u.", 25, 50257},
        {"\x80\x02}(X\n\0\0\0vocab_sizer\1\0\0\0J\0\0\1\0u.", 30, 65536},
        {"\x80\x02}(X\n\0\0\0vocab_sizeJ\xff\xff\xff\xff", 24, 0},
        {"\x80\x04}(\x8c\nvocab_size\x94K", 17, 0},
        {"", 0, 0},
    };
    tt_shelf_begin();
    write_plain("train.bin", 0, 20);
    for (size_t i = 0; i < sizeof metas / sizeof *metas; i++) {
        tt_shelf_write("meta.pkl", metas[i].bytes, metas[i].n);
        tt_data *data =
            tt_shelf_open("data=tokens data.path=train.bin data.holdout=0");
        CHECK_MSG(data->train->classes == metas[i].vocab, "%d: %lld", (int)i,
                  (long long)data->train->classes);
        tt_data_close(data);
    }
    tt_shelf_end();
}

TEST(tokens_have_the_dtype_that_is_asked_for)
{
    tt_shelf_begin();
    static const uint8_t ids[] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0,
                                  4, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0};
    tt_shelf_write("x.bin", ids, sizeof ids);
    static const int32_t wide[] = {1, 2, 3, 4, 5, 6};
    tt_data *data = tt_shelf_open(
        "data=tokens data.path=x.bin data.holdout=0 data.dtype=u32");
    tt_shelf_tokens(data->train, wide, 6);
    tt_data_close(data);
    data = tt_shelf_open(
        "data=tokens data.path=x.bin data.holdout=0 data.dtype=u8");
    CHECK(data->train->n == 24);
    tt_data_close(data);
    tt_shelf_end();
}

TEST(tokens_of_a_huge_file_are_mapped)
{
    const int64_t n = 3000000000;
    tt_shelf_begin();
    tt_shelf_write("huge.bin", "", 0);
    if (truncate("huge.bin", 2 * n) != 0)
        SKIP("no room for a file with holes");
    FILE *file = fopen("huge.bin", "rb+");
    CHECK(file != NULL && fseeko(file, 2 * n - 2, SEEK_SET) == 0);
    CHECK(fwrite("\7\1", 2, 1, file) == 1 && fclose(file) == 0);
    const int64_t before = tt_alloc_bytes();
    tt_data *data =
        tt_shelf_open("data=tokens data.path=huge.bin data.holdout=0.5");
    CHECK(tt_alloc_bytes() - before < 1 << 20);
    CHECK(data->train->n == n / 2 && data->val->n == n / 2);
    int32_t got[3];
    CHECK_OK(tt_source_read_tokens(data->val, n / 2 - 3, 3, got));
    CHECK(got[0] == 0 && got[2] == 0x107);
    tt_data_close(data);
    tt_shelf_end();
}

TEST(tokens_refuse_files_that_lie)
{
    tt_shelf_begin();
    write_llmc("short.bin", 20240520, 1, 8, 0, 7);
    tt_shelf_refuses("data=tokens data.path=short.bin",
                     "short.bin: an llm.c file that says it holds 8 tokens, "
                     "which would be 1040 bytes; it has 1038");
    write_llmc("negative.bin", 20240520, 1, -1, 0, 7);
    tt_shelf_refuses("data=tokens data.path=negative.bin", "-1 tokens");
    write_llmc("old.bin", 20240520, 2, 7, 0, 7);
    tt_shelf_refuses("data=tokens data.path=old.bin", "of version 2");
    write_llmc("model.bin", 20240326, 3, 7, 0, 7);
    tt_shelf_refuses("data=tokens data.path=model.bin",
                     "holds a model, not tokens");
    tt_shelf_text("odd.bin", "abc");
    tt_shelf_refuses("data=tokens data.path=odd.bin", "3 bytes are no whole");
    tt_shelf_text("empty.bin", "");
    tt_shelf_refuses("data=tokens data.path=empty.bin", "nothing to train on");
    tt_shelf_refuses("data=tokens data.path=none.bin", "No such file");
    tt_shelf_refuses("data=tokens data.path=*.nothing", "no file has a name");
    tt_shelf_refuses("data=tokens", "data.path is not set");
    tt_shelf_end();
}

TEST(tokens_too_few_for_a_window_are_named)
{
    tt_shelf_begin();
    write_plain("few.bin", 0, 4);
    tt_shelf_refuses("data=tokens data.path=few.bin data.holdout=0",
                     "the training data have 4 tokens and seq=4 needs 5; set "
                     "seq to at most 3");
    write_plain("some.bin", 0, 20);
    tt_shelf_refuses("data=tokens data.path=some.bin",
                     "the validation data have 2 tokens");
    tt_shelf_end();
}

// ---- Megatron ----------------------------------------------------------------

static const uint8_t idx_of_two[] = {
    0x4d, 0x4d, 0x49, 0x44, 0x49, 0x44, 0x58, 0, 0, // magic
    1,    0,    0,    0,    0,    0,    0,    0,    // version
    8,                                              // uint16
    2,    0,    0,    0,    0,    0,    0,    0,    // sequences
    3,    0,    0,    0,    0,    0,    0,    0,    // documents + 1
    3,    0,    0,    0,    2,    0,    0,    0,    // lengths
    0,    0,    0,    0,    0,    0,    0,    0,    // offsets
    6,    0,    0,    0,    0,    0,    0,    0,    //
    0,    0,    0,    0,    0,    0,    0,    0,    // documents
    1,    0,    0,    0,    0,    0,    0,    0,    //
    2,    0,    0,    0,    0,    0,    0,    0};
static const uint8_t bin_of_two[] = {1, 0, 2, 0, 3, 0, 4, 0, 5, 0};

TEST(megatron_reads_what_megatron_writes)
{
    tt_shelf_begin();
    CHECK(sizeof idx_of_two == 82);
    tt_shelf_write("two.idx", idx_of_two, sizeof idx_of_two);
    tt_shelf_write("two.bin", bin_of_two, sizeof bin_of_two);
    static const int32_t want[] = {1, 2, 3, 4, 5};
    static const char *const ways[] = {
        "data=megatron data.path=two data.holdout=0",
        "data=megatron data.path=two.bin data.holdout=0",
        "data=megatron data.path=two.idx data.holdout=0"};
    for (int i = 0; i < 3; i++) {
        tt_data *data = tt_shelf_open(ways[i]);
        tt_shelf_tokens(data->train, want, 5);
        tt_data_close(data);
    }
    tt_data *data = tt_shelf_open("data=megatron data.path=two data.val=two");
    tt_shelf_tokens(data->val, want, 5);
    tt_data_close(data);
    tt_shelf_starves(ways[0]);
    tt_shelf_end();
}

// Many sequences, some empty, that lie backwards in the file.
TEST(megatron_follows_its_offsets)
{
    enum { N = 200, HEAD = 34 };
    static uint8_t idx[HEAD + 12 * N + 8];
    int32_t bin[1000], want[1000];
    int64_t total = 0, end = 1000;
    memcpy(idx, idx_of_two, 17);
    idx[17] = 4;
    idx[18] = N;
    idx[26] = 1;
    for (int i = 0; i < N; i++) {
        const int64_t n = i % 7 == 3 ? 0 : i % 5;
        end -= n;
        for (int64_t k = 0; k < n; k++)
            want[total++] = bin[end + k] = (int32_t)(1000 * i + k);
        idx[HEAD + 4 * i] = (uint8_t)n;
        const int64_t offset = 4 * end;
        memcpy(idx + HEAD + 4 * N + 8 * i, &offset, 8);
    }
    tt_shelf_begin();
    tt_shelf_write("x.idx", idx, sizeof idx);
    tt_shelf_write("x.bin", bin, sizeof bin);
    tt_data *data = tt_shelf_open("data=megatron data.path=x data.holdout=0");
    tt_shelf_tokens(data->train, want, total);
    tt_data_close(data);
    tt_shelf_end();
}

// Writes the index with one byte changed.
static void spoil(int at, uint8_t value)
{
    uint8_t idx[sizeof idx_of_two];
    memcpy(idx, idx_of_two, sizeof idx);
    idx[at] = value;
    tt_shelf_write("x.idx", idx, sizeof idx);
}

TEST(megatron_refuses_an_index_that_lies)
{
    static const char open[] = "data=megatron data.path=x data.holdout=0";
    tt_shelf_begin();
    tt_shelf_write("x.bin", bin_of_two, sizeof bin_of_two);
    spoil(0, 'm');
    tt_shelf_refuses(open, "x.idx: not an index of Megatron");
    spoil(9, 2);
    tt_shelf_refuses(open, "version 2");
    spoil(17, 7);
    tt_shelf_refuses(open, "floating-point");
    spoil(17, 9);
    tt_shelf_refuses(open, "unknown type of ids, 9");
    spoil(25, 0x7f);
    tt_shelf_refuses(open, "do not make its 82 bytes");
    spoil(26, 4);
    tt_shelf_refuses(open, "do not make its 82 bytes");
    spoil(34, 4); // sequence 0: to the end of the file is right
    tt_data *data = tt_shelf_open(open);
    CHECK(data->train->n == 6);
    tt_data_close(data);
    spoil(37, 0x80);
    tt_shelf_refuses(open, "sequence 0 is -2147483645 ids from byte 0 on");
    spoil(50, 7);
    tt_shelf_refuses(open, "sequence 1 is 2 ids from byte 7 on, and the .bin "
                           "file has 10 bytes");
    spoil(57, 0xff);
    tt_shelf_refuses(open, "sequence 1");
    tt_shelf_write("x.idx", idx_of_two, 33);
    tt_shelf_refuses(open, "not an index");
    tt_shelf_refuses("data=megatron data.path=nowhere", "nowhere.idx");
    tt_shelf_end();
}

TEST(megatron_refuses_ids_of_64_bits)
{
    uint8_t idx[sizeof idx_of_two];
    int64_t bin[5] = {1, 2, 3, (int64_t)1 << 40, 5};
    memcpy(idx, idx_of_two, sizeof idx);
    idx[17] = 5;
    idx[50] = 24;
    tt_shelf_begin();
    tt_shelf_write("x.idx", idx, sizeof idx);
    tt_shelf_write("x.bin", bin, sizeof bin);
    tt_data *data = tt_shelf_open("data=megatron data.path=x data.holdout=0");
    int32_t got[5];
    CHECK_OK(tt_source_read_tokens(data->train, 0, 3, got));
    CHECK(got[2] == 3);
    CHECK(tt_source_read_tokens(data->train, 0, 5, got) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "token 0 of sequence 1") != NULL);
    tt_data_close(data);
    tt_shelf_end();
}
