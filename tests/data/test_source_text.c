// Plain text as a source of tokens.

#include "data/shelf.h"

#include <stdio.h>
#include <string.h>

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
