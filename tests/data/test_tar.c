// Archives: the files of the corpus, which Python's tarfile wrote, and headers
// that lie.

#include "base/alloc.h"
#include "data/source/tar.h"
#include "test.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static tt_tar *open_file(const char *name)
{
    char path[256];
    tt_tar *tar = NULL;
    snprintf(path, sizeof path, "tests/fuzz/corpus/tar/%s", name);
    CHECK_OK(tt_tar_open(path, &tar));
    return tar;
}

// The next member has this name and size.
static void check_next(tt_tar *tar, const char *name, int64_t bytes)
{
    tt_tar_member m = {0};
    bool has_one = false;
    CHECK_OK(tt_tar_next(tar, &m, &has_one));
    CHECK(has_one);
    CHECK_MSG(strcmp(m.name, name) == 0 && m.bytes == bytes, "%s, %lld bytes",
              m.name, (long long)m.bytes);
}

static void check_end(tt_tar *tar)
{
    tt_tar_member m = {0};
    for (int i = 0; i < 2; i++) { // and it stays there
        bool has_one = true;
        CHECK_OK(tt_tar_next(tar, &m, &has_one));
        CHECK(!has_one);
    }
    tt_tar_close(tar);
    CHECK(tt_alloc_live() == 0);
}

TEST(tar_members_come_in_order)
{
    static const char *const files[] = {"one", "no-end", "base256"};
    for (int i = 0; i < 3; i++) {
        tt_tar *tar = open_file(files[i]);
        check_next(tar, "0001.png", 69);
        check_next(tar, "0001.cls", 1);
        check_end(tar);
    }
    tt_tar *tar = open_file("gray-json"); // the folder is passed over
    check_next(tar, "d/a.cls", 2);
    check_next(tar, "d/a.png", 73);
    check_end(tar);
}

TEST(tar_names_may_be_long)
{
    char name[256];
    int n = 0;
    for (int i = 0; i < 60; i++)
        n += snprintf(name + n, sizeof name - (size_t)n, "x/");
    snprintf(name + n, sizeof name - (size_t)n, "0001.png");
    tt_tar *tar = open_file("ustar-prefix");
    check_next(tar, name, 69);
    snprintf(name + n, sizeof name - (size_t)n, "0001.cls");
    check_next(tar, name, 2);
    check_end(tar);

    memset(name, 'y', 120);
    snprintf(name + 120, sizeof name - 120, ".cls");
    tar = open_file("pax-long");
    check_next(tar, name, 1);
    check_end(tar);
    tar = open_file("gnu-long");
    check_next(tar, name, 1);
    check_end(tar);
}

TEST(tar_pax_records_replace_name_and_size)
{
    tt_tar *tar = open_file("pax-size");
    tt_tar_member m = {0};
    bool has_one = false;
    char content = 0;
    CHECK_OK(tt_tar_next(tar, &m, &has_one));
    CHECK(has_one && strcmp(m.name, "0001.cls") == 0 && m.bytes == 1);
    CHECK_OK(tt_tar_read(tar, &m, 1, &content));
    CHECK(content == '1');
    check_end(tar);
}

static void check_bad(const char *name, const char *word)
{
    tt_tar *tar = open_file(name);
    tt_tar_member m = {0};
    bool has_one = true;
    tt_status status = TT_OK;
    while (status == TT_OK && has_one)
        status = tt_tar_next(tar, &m, &has_one);
    CHECK_MSG(status == TT_ERR_ARG, "%s is read", name);
    CHECK_MSG(strstr(tt_error_message(), word) != NULL, "%s",
              tt_error_message());
    CHECK(strstr(tt_error_message(), name) != NULL);
    tt_tar_close(tar);
    CHECK(tt_alloc_live() == 0);
}

TEST(tar_headers_that_lie_are_refused)
{
    check_bad("bad-checksum", "byte 0 has a wrong checksum");
    check_bad("bad-gzip", "compressed");
    check_bad("bad-huge", "beyond the end");
    check_bad("bad-size", "beyond the end");
    check_bad("bad-negative", "not a number");
    check_bad("bad-truncated", "byte 1024 is truncated");
    check_bad("bad-pax-record", "makes no sense");
    check_bad("bad-pax-size", "makes no sense");
    check_bad("bad-pax-size2", "beyond the end");
}

TEST(tar_that_is_no_file_is_named)
{
    tt_tar *tar = NULL;
    CHECK(tt_tar_open("/nowhere/x.tar", &tar) == TT_ERR_IO);
    CHECK(strstr(tt_error_message(), "/nowhere/x.tar") != NULL);
    CHECK(tt_tar_open("/", &tar) == TT_ERR_ARG);
    CHECK(tt_tar_open("/dev/null", &tar) == TT_ERR_ARG);
    CHECK(tar == NULL && tt_alloc_live() == 0);
}
