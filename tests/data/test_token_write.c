// test_token_write - files of tokens: their bytes, shards, and what is left behind.

#include "base/alloc.h"
#include "base/file.h"
#include "data/token_write.h"
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/tutti-tokens-XXXXXX";

static void enter(void)
{
    CHECK(mkdtemp(folder) != NULL);
    CHECK(chdir(folder) == 0);
}

static int count_files(void)
{
    int n = 0;
    DIR *dir = opendir(".");
    for (const struct dirent *e = readdir(dir); e != NULL; e = readdir(dir))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

static void leave(void)
{
    CHECK(chdir("/") == 0);
    CHECK(tt_file_remove(folder) == TT_OK);
    CHECK(tt_alloc_live() == 0);
}

static void read_file(const char *path, tt_str *out)
{
    tt_str_clear(out);
    CHECK_MSG(tt_file_read(path, 1 << 20, out) == TT_OK, "%s",
              tt_error_message());
}

static tt_status finish(tt_token_writer *w, tt_str *paths)
{
    tt_file_set set = {0};
    tt_status status = tt_token_writer_finish(w, &set, paths);
    if (status == TT_OK)
        status = tt_file_set_place(&set);
    tt_file_set_fini(&set);
    return status;
}

// Writes documents [1,2,3] and [4,5].
static tt_str write_two(tt_token_format format, int64_t vocab, int64_t shard)
{
    static const int32_t ids[] = {1, 2, 3, 4, 5};
    const tt_token_target target = {"x", format, vocab, shard};
    tt_token_writer *w = NULL;
    tt_str paths = {0};
    CHECK(tt_token_writer_open(&target, &w) == TT_OK);
    CHECK(tt_token_writer_document(w) == TT_OK);
    CHECK(tt_token_writer_add(w, ids, 3) == TT_OK);
    CHECK(tt_token_writer_document(w) == TT_OK);
    CHECK(tt_token_writer_add(w, ids + 3, 2) == TT_OK);
    CHECK(tt_token_writer_document(w) == TT_OK); // nothing follows
    CHECK(tt_token_writer_count(w) == 5);
    CHECK(finish(w, &paths) == TT_OK);
    tt_token_writer_close(w);
    return paths;
}

TEST(tokens_of_megatron_are_the_known_bytes)
{
    static const char idx[] =
        "MMIDIDX\0\0\1\0\0\0\0\0\0\0\x08\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0"
        "\3\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0"
        "\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0";
    tt_str text = {0};
    enter();
    tt_str paths = write_two(TT_TOKENS_MEGATRON, 65499, 2);
    CHECK(strcmp(paths.text, "x.bin\nx.idx\n") == 0 && count_files() == 2);
    read_file("x.idx", &text);
    CHECK(text.n == 82 && memcmp(text.text, idx, 82) == 0);
    read_file("x.bin", &text);
    CHECK(text.n == 10 && memcmp(text.text, "\1\0\2\0\3\0\4\0\5\0", 10) == 0);
    tt_str_fini(&paths);
    paths = write_two(TT_TOKENS_MEGATRON, 65500, 0);
    read_file("x.idx", &text);
    CHECK(text.text[17] == 4);
    read_file("x.bin", &text);
    CHECK(text.n == 20);
    tt_str_fini(&paths);
    tt_str_fini(&text);
    leave();
}

TEST(tokens_of_llmc_have_a_header)
{
    tt_str text = {0};
    enter();
    tt_str paths = write_two(TT_TOKENS_LLMC, 65536, 0);
    CHECK(strcmp(paths.text, "x.bin\n") == 0);
    read_file("x.bin", &text);
    CHECK(text.n == 1024 + 10);
    const int32_t *header = (const int32_t *)(const void *)text.text;
    CHECK(header[0] == 20240520 && header[1] == 1 && header[2] == 5);
    CHECK(header[3] == 0 && header[255] == 0);
    tt_str_fini(&paths);
    paths = write_two(TT_TOKENS_LLMC, 65537, 0);
    read_file("x.bin", &text);
    header = (const int32_t *)(const void *)text.text;
    CHECK(text.n == 1024 + 20 && header[0] == 20240801 && header[1] == 7);
    tt_str_fini(&paths);
    tt_str_fini(&text);
    leave();
}

TEST(tokens_are_cut_into_shards)
{
    tt_str text = {0};
    enter();
    tt_str paths = write_two(TT_TOKENS_LLMC, 10, 2);
    CHECK(strcmp(paths.text, "x_000000.bin\nx_000001.bin\nx_000002.bin\n") ==
          0);
    CHECK(count_files() == 3);
    read_file("x_000002.bin", &text);
    CHECK(text.n == 1024 + 2 && text.text[8] == 1 && text.text[1024] == 5);
    tt_str_fini(&paths);
    paths = write_two(TT_TOKENS_NANOGPT, 10, 5); // exactly one
    read_file("x.bin", &text);
    CHECK(text.n == 10);
    tt_str_fini(&paths);
    paths = write_two(TT_TOKENS_NPY, 10, 0);
    read_file("x.npy", &text);
    CHECK(text.n == 128 + 10 && text.text[127] == '\n');
    CHECK(memcmp(text.text,
                 "\x93NUMPY\1\0\x76\0{'descr': '<u2', "
                 "'fortran_order': False, 'shape': (5,), } ",
                 68) == 0);
    tt_str_fini(&paths);
    tt_str_fini(&text);
    leave();
}

TEST(tokens_beyond_the_vocabulary_are_refused)
{
    const tt_token_target target = {"x", TT_TOKENS_LLMC, 10, 0};
    tt_token_writer *w = NULL;
    enter();
    for (int32_t bad = -1; bad < 12; bad += 11) {
        CHECK(tt_token_writer_open(&target, &w) == TT_OK);
        CHECK(tt_token_writer_add(w, &bad, 1) == TT_ERR_ARG);
        tt_token_writer_close(w);
    }
    CHECK(count_files() == 0);
    leave();
}

TEST(tokens_on_a_full_disk_leave_nothing)
{
    static int32_t ids[1 << 20];
    enter();
    for (int64_t k = 1; k < 40; k++) {
        const tt_token_target target = {"x", TT_TOKENS_MEGATRON, 10, 0};
        tt_token_writer *w = NULL;
        tt_str paths = {0};
        tt_file_fail_from(k, ENOSPC);
        tt_status status = tt_token_writer_open(&target, &w);
        if (status == TT_OK)
            status = tt_token_writer_add(w, ids, 1 << 20);
        if (status == TT_OK)
            status = finish(w, &paths);
        const bool is_done = tt_file_count() < k;
        tt_file_fail_at(0, 0);
        tt_token_writer_close(w);
        tt_str_fini(&paths);
        CHECK(status == (is_done ? TT_OK : TT_ERR_IO));
        CHECK_MSG(count_files() == 2 * is_done, "%lld", (long long)k);
        if (is_done) {
            leave();
            return;
        }
    }
    CHECK_MSG(false, "it never finished");
}

// Three files of which the last was there before, with every call failing once.
TEST(files_of_a_set_get_all_their_names_or_none)
{
    static const char *const names[] = {"a", "b", "old"};
    tt_str text = {0};
    enter();
    CHECK(tt_file_replace("old", "old", 3) == TT_OK);
    bool is_done = false;
    for (int64_t k = 1; k < 60 && !is_done; k++) {
        tt_file_set set = {0};
        tt_status status = TT_OK;
        tt_file_fail_at(k, EIO);
        for (int i = 0; i < 3 && status == TT_OK; i++)
            status = tt_file_set_write(&set, names[i], "new", 3);
        if (status == TT_OK)
            status = tt_file_set_place(&set);
        is_done = tt_file_count() < k;
        tt_file_fail_at(0, 0);
        tt_file_set_fini(&set);
        CHECK(status == (is_done ? TT_OK : TT_ERR_IO));
        CHECK_MSG(count_files() == (is_done ? 3 : 1), "%lld", (long long)k);
        read_file("old", &text);
        CHECK(text.n == 3);
    }
    CHECK(is_done && memcmp(text.text, "new", 3) == 0);
    tt_str_fini(&text);
    leave();
}
