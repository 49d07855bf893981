// Plain text as a source of tokens.

#include "data/shelf.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TEST(text_is_cut_by_characters)
{
    tt_shelf_begin();
    tt_shelf_text("a.txt", "hello world, hello you!"); // 23 characters
    tt_data *data = tt_shelf_open("data=text data.path=a.txt data.holdout=0.3");
    CHECK(data->train->n == 16 && data->val->n == 7);
    CHECK(data->train->classes == 12 && data->val->classes == 12);
    tt_str back = {0};
    int32_t ids[16];
    CHECK_OK(tt_source_read_tokens(data->train, 0, 16, ids));
    CHECK_OK(tt_tokenizer_decode(data->train->tokenizer, ids, 16, &back));
    CHECK_OK(tt_source_read_tokens(data->val, 0, 7, ids));
    CHECK_OK(tt_tokenizer_decode(data->val->tokenizer, ids, 7, &back));
    CHECK(strcmp(tt_str_text(&back), "hello world, hello you!") == 0);
    tt_str_fini(&back);
    tt_data_close(data);
    tt_shelf_starves("data=text data.path=a.txt data.holdout=0.3");
    tt_shelf_end();
}

TEST(text_counts_characters_not_bytes)
{
    tt_shelf_begin();
    tt_shelf_text("a.txt", "\xc3\xa4\xc3\xb6\xc3\xbc\xe2\x82\xac\xc3\x9f"
                           "abcde"); // ten characters, 16 bytes
    tt_data *data = tt_shelf_open("data=text data.path=a.txt data.holdout=0.5");
    CHECK(data->train->n == 5 && data->val->n == 5);
    CHECK(data->train->classes == 10);
    tt_data_close(data);
    data = tt_shelf_open(
        "data=text data.path=a.txt data.holdout=0.5 data.tokenizer=bytes");
    CHECK(data->train->n == 11 && data->val->n == 5);
    CHECK(data->train->classes == 256);
    tt_data_close(data);
    tt_shelf_end();
}

TEST(text_of_many_files_is_joined_in_order)
{
    tt_shelf_begin();
    tt_shelf_text("b.txt", "cde");
    tt_shelf_text("a.txt", "ab");
    tt_shelf_text("empty.txt", "");
    tt_shelf_gzip("f.txt.gz", "fgh", 3);
    tt_shelf_text(".hidden", "zzz");
    static const int32_t want[] = {0, 1, 2, 3, 4, 5, 6, 7};
    tt_data *data = tt_shelf_open("data=text data.path=. data.holdout=0");
    tt_shelf_tokens(data->train, want, 8);
    CHECK(data->val == NULL);
    tt_data_close(data);
    data = tt_shelf_open("data=text data.path=[ab].txt data.holdout=0");
    tt_shelf_tokens(data->train, want, 5);
    tt_data_close(data);
    tt_shelf_end();
}

TEST(text_for_validation_shares_the_characters)
{
    tt_shelf_begin();
    tt_shelf_text("train.txt", "abcabc");
    tt_shelf_text("val.txt", "xaxbxc");
    tt_data *data =
        tt_shelf_open("data=text data.path=train.txt data.val=val.txt");
    CHECK(data->train->classes == 4 && data->val->classes == 4);
    static const int32_t train[] = {0, 1, 2, 0, 1, 2};
    static const int32_t val[] = {3, 0, 3, 1, 3, 2};
    tt_shelf_tokens(data->train, train, 6);
    tt_shelf_tokens(data->val, val, 6);
    tt_data_close(data);
    tt_shelf_end();
}

TEST(text_that_is_not_there_is_refused)
{
    tt_shelf_begin();
    tt_shelf_text("empty.txt", "");
    tt_shelf_refuses("data=text data.path=empty.txt", "empty.txt: it is empty");
    tt_shelf_refuses("data=text data.path=none.txt", "none.txt: No such file");
    tt_shelf_refuses("data=text", "data.path is not set");
    tt_shelf_text("one.txt", "a");
    tt_shelf_refuses("data=text data.path=one.txt data.holdout=0",
                     "training data have 1 tokens");
    tt_shelf_refuses("data=text data.path=one.txt data.tokenizer=nowhere",
                     "nowhere");
    tt_shelf_end();
}

// Long enough for several pieces, with characters across their borders.
TEST(text_in_pieces_is_the_whole_text)
{
    enum { N = 1500000 };
    static char bytes[2 * N];
    for (int i = 0; i < N; i++)
        memcpy(bytes + 2 * i, i % 3 == 0 ? "\xc3\xa4" : "\xc3\xb6", 2);
    tt_shelf_begin();
    bytes[0] = bytes[1] = 'a'; // now an odd number of characters before
    bytes[2] = 'a';
    bytes[3] = 'a';
    tt_shelf_write("long.txt", bytes + 1, 2 * N - 1);
    tt_data *data =
        tt_shelf_open("data=text data.path=long.txt data.holdout=0");
    CHECK(data->train->n == N + 1 && data->train->classes == 3);
    int32_t got[4];
    CHECK_OK(tt_source_read_tokens(data->train, N - 2, 3, got));
    CHECK(got[0] == 1 && got[1] == 2 && got[2] == 2);
    tt_data_close(data);
    tt_shelf_end();
}

static const char shakespeare[] = "../shared/data/tinyshakespeare/input.txt";

TEST(text_of_tinyshakespeare_is_nanogpts)
{
    FILE *file = fopen(shakespeare, "r");
    if (file == NULL)
        SKIP("no shared data");
    fclose(file);
    char settings[256];
    snprintf(settings, sizeof settings, "data=text data.path=%s", shakespeare);
    tt_data *data = tt_shelf_open(settings);
    CHECK(data->train->classes == 65);
    CHECK(data->train->n == 1003854 && data->val->n == 111540);
    tt_data_close(data);
    snprintf(settings, sizeof settings,
             "data=text data.path=%s data.tokenizer=../shared/data/gpt2-bpe",
             shakespeare);
    data = tt_shelf_open(settings);
    CHECK(data->train->classes == 50257);
    CHECK(data->train->n == 301966 && data->val->n == 36059);
    tt_data_close(data);
}

static void put_lines(void)
{
    tt_shelf_text("a.jsonl", "{\"id\": 1, \"text\": \"ab\\u0063\"}\n\n"
                             "{\"text\": \"d\\ne\", \"m\": {\"x\": \"q\"}}\r\n"
                             "{\"text\": \"\"}\n{\"text\": \"fg\"}");
    tt_shelf_text("a.txt", "abc\nd\ne\n\nfg\n");
}

TEST(json_lines_are_documents)
{
    tt_shelf_begin();
    put_lines();
    int32_t want[12];
    tt_data *data = tt_shelf_open("data=text data.path=a.txt data.holdout=0");
    CHECK(data->train->n == 12);
    CHECK_OK(tt_source_read_tokens(data->train, 0, 12, want));
    tt_data_close(data);
    data = tt_shelf_open("data=text data.path=a.jsonl data.holdout=0");
    tt_shelf_tokens(data->train, want, 12); // a line break ends each
    tt_data_close(data);
    tt_shelf_text("b.txt",
                  "{\"body\": \"abc\\nd\"}\n{\"body\": \"e\\n\\nfg\"}");
    data = tt_shelf_open(
        "data=text data.path=b.txt data.field=body data.holdout=0");
    tt_shelf_tokens(data->train, want, 12);
    tt_data_close(data);
    tt_shelf_text("c.ndjson", "\xef\xbb\xbf{\"m\": {\"t\": \"hello you\"}}");
    data = tt_shelf_open(
        "data=text data.path=c.ndjson data.field=m.t data.holdout=0.5");
    CHECK(data->train->n == 5 && data->val->n == 5);
    tt_data_close(data);
    tt_shelf_starves("data=text data.path=a.jsonl data.holdout=0");
    tt_shelf_end();
}

TEST(json_lines_that_are_none_are_refused)
{
    static const char *const bad[][2] = {
        {"{\"text\": \"abc\"}\n{\"txt\": \"d\", \"b\": 2}\n",
         "a.jsonl: line 2 has no \"text\"; set data.field to one of its "
         "members: txt, b"},
        {"{\"text\": 3}\n", "\"text\" of line 1 is no text"},
        {"{\"text\": null}\n", "\"text\" of line 1 is no text"},
        {"[{\"text\": \"abc\"}]\n", "line 1 is no object"},
        {"{\"text\": \"abc\"\n", "line 1 is not JSON: column 15"},
        {"\n\n \n", "it is empty"},
    };
    tt_shelf_begin();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tt_shelf_text("a.jsonl", bad[i][0]);
        tt_shelf_refuses("data=text data.path=a.jsonl", bad[i][1]);
    }
    tt_shelf_end();
}

TEST(packed_text_is_known_by_its_bytes)
{
    static const int32_t want[] = {0, 1, 2, 3, 4, 5};
    tt_shelf_begin();
    tt_shelf_gzip("a.txt.gz", "abcdef", 6);
    CHECK(rename("a.txt.gz", "a.txt") == 0);
    tt_data *data = tt_shelf_open("data=text data.path=a.txt data.holdout=0");
    tt_shelf_tokens(data->train, want, 6);
    tt_data_close(data);
    tt_shelf_gzip("b.jsonl.gz", "{\"text\": \"abcdef\"}", 18);
    data = tt_shelf_open("data=text data.path=b.jsonl.gz data.holdout=0");
    CHECK(data->train->n == 7);
    tt_data_close(data);
    tt_shelf_text("c.txt", "\xef\xbb\xbf"
                           "abcdef"); // a byte order mark
    data = tt_shelf_open("data=text data.path=c.txt data.holdout=0");
    tt_shelf_tokens(data->train, want, 6);
    tt_data_close(data);
    tt_shelf_end();
}

TEST(what_is_no_text_is_refused_with_a_remedy)
{
    static const struct {
        const char *bytes;
        int64_t n;
        const char *says;
    } bad[] = {
        {"PAR1 and more", 13,
         "Parquet, not text; make JSON lines of it: "
         "python3 -c \"import pandas; "
         "pandas.read_parquet('a.txt')"},
        {"PK\3\4zip", 7, "zip, not text; unpack it first: unzip 'a.txt'"},
        {"\x28\xb5\x2f\xfd zstd", 8, "unzstd 'a.txt'"},
        {"\xfd"
         "7zXZ\0 xz",
         9, "unxz 'a.txt'"},
        {"BZh91AY&SY bzip2", 16, "bunzip2 'a.txt'"},
        {"%PDF-1.4 pdf", 12, "pdftotext 'a.txt'"},
        {"SQLite format 3\0 ", 17, "its format is SQLite"},
        {"\2\0\0\0\0\0\0\0{} more", 15, "its format is safetensors"},
        {"\x80\4\x95 and so on.", 14, "its format is pickle"},
        {"\xff\xfe"
         "a\0b\0",
         6, "iconv -f UTF-16 -t UTF-8 'a.txt'"},
        {"\x93NUMPY more", 11, "data=npy reads it"},
        {"\x89PNG\r\n\x1a\n more", 13, "data=folder"},
    };
    tt_shelf_begin();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tt_shelf_write("a.txt", bad[i].bytes, bad[i].n);
        tt_shelf_refuses("data=text data.path=a.txt data.tokenizer=bytes",
                         bad[i].says);
    }
    tt_shelf_write("a.bin", "PAR1 and so on", 14);
    tt_shelf_refuses("data=tokens data.path=a.bin",
                     "a.bin: its format is Parquet, not token ids");
    tt_shelf_refuses("data=csv data.path=a.bin", "Parquet, not a table");
    // Names that only begin like one are text.
    tt_shelf_text("a.txt", "BZh is no bzip2 and PK no zip; GIF or PDF");
    tt_data_close(tt_shelf_open("data=text data.path=a.txt data.holdout=0"));
    tt_shelf_end();
}

TEST(a_folder_that_cannot_be_read_is_not_an_empty_one)
{
    tt_shelf_begin();
    CHECK(symlink("circle", "circle") == 0); // fails for root too
    tt_shelf_refuses("data=text data.path=circle/*.txt",
                     "circle: Too many levels of symbolic links");
    tt_shelf_refuses("data=webdataset data.path=circle/*.tar",
                     "circle: Too many levels of symbolic links");
    CHECK(mkdir("empty", 0777) == 0);
    tt_shelf_refuses("data=text data.path=empty",
                     "empty: there are no files in this folder");
    tt_shelf_end();
}
