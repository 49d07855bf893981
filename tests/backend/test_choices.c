// Choices of a device: kept in a file, whatever happens to it.

#include "backend/choices.h"
#include "base/file.h"
#include "base/str.h"
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct place {
    char folder[64], below[128], path[192];
} place;

static place make_place(void)
{
    place p;
    snprintf(p.folder, sizeof p.folder, "/tmp/tutti-choices-XXXXXX");
    CHECK(mkdtemp(p.folder) != NULL);
    snprintf(p.below, sizeof p.below, "%s/a/b", p.folder);
    snprintf(p.path, sizeof p.path, "%s/choices-x.txt", p.below);
    return p;
}

static tt_choices *open_at(const place *p)
{
    tt_choices *c = NULL;
    CHECK_OK(tt_choices_open(p->below, "x", &c));
    return c;
}

// What a new process would find.
static bool has(const place *p, const char *key, const char *value)
{
    tt_choices *c = open_at(p);
    const char *found = tt_choices_find(c, key);
    const bool is_right = value == NULL
                              ? found == NULL
                              : found != NULL && strcmp(found, value) == 0;
    tt_choices_close(c);
    return is_right;
}

static void keep(const place *p, const char *key, const char *value)
{
    tt_choices *c = open_at(p);
    tt_choices_keep(c, key, value);
    tt_choices_close(c);
}

static void write_text(const place *p, const char *text)
{
    CHECK_OK(tt_file_replace(p->path, text, (int64_t)strlen(text)));
}

static void remove_place(const place *p)
{
    CHECK_OK(tt_file_remove(p->folder));
}

TEST(choices_are_found_by_the_next_process)
{
    const place p = make_place();
    keep(&p, "gemm 1 2", "abc");
    keep(&p, "gemm 1", "x y");
    CHECK(has(&p, "gemm 1 2", "abc"));
    CHECK(has(&p, "gemm 1", "x y"));
    CHECK(has(&p, "gemm", NULL));
    CHECK(has(&p, "abc", NULL));
    CHECK(has(&p, "", NULL));
    keep(&p, "gemm 1 2", "other");
    CHECK(has(&p, "gemm 1 2", "other"));
    CHECK(has(&p, "gemm 1", "x y"));
    remove_place(&p);
}

TEST(choices_without_a_folder_live_as_long_as_they_are_open)
{
    tt_choices *c = NULL;
    CHECK_OK(tt_choices_open(NULL, "x", &c));
    CHECK(tt_choices_find(c, "a") == NULL);
    tt_choices_keep(c, "a", "1");
    tt_choices_keep(c, "b", "2");
    tt_choices_keep(c, "a", "3");
    CHECK(strcmp(tt_choices_find(c, "a"), "3") == 0);
    CHECK(strcmp(tt_choices_find(c, "b"), "2") == 0);
    tt_choices_close(c);
    tt_choices_close(NULL);
}

TEST(choices_of_two_processes_are_both_kept)
{
    const place p = make_place();
    tt_choices *a = open_at(&p), *b = open_at(&p);
    tt_choices_keep(a, "of a", "1");
    tt_choices_keep(b, "of b", "2");
    tt_choices_keep(a, "both", "3");
    tt_choices_keep(b, "both", "4");
    CHECK(has(&p, "of a", "1"));
    CHECK(has(&p, "of b", "2"));
    CHECK(has(&p, "both", "4"));
    CHECK(tt_choices_find(a, "of b") == NULL); // it began without
    CHECK(strcmp(tt_choices_find(a, "both"), "3") == 0);
    tt_choices_close(a);
    tt_choices_close(b);
    remove_place(&p);
}

TEST(choices_in_a_torn_or_foreign_file_are_none_and_it_is_replaced)
{
    const place p = make_place();
    tt_str whole = {0};
    keep(&p, "a", "1");
    keep(&p, "b", "2");
    CHECK_OK(tt_file_read(p.path, 1 << 20, &whole));
    for (int64_t n = 0; n < whole.n; n++) {
        CHECK_OK(tt_file_replace(p.path, whole.text, n));
        CHECK(has(&p, "a", NULL));
    }
    for (int64_t i = 0; i < whole.n; i++) {
        whole.text[i] ^= 1;
        CHECK_OK(tt_file_replace(p.path, whole.text, whole.n));
        CHECK(has(&p, "a", NULL) && has(&p, "b", NULL));
        whole.text[i] ^= 1;
    }
    static const char *const foreign[] = {
        "hello\n", "tutti choices 1\n", "tutti choices 1\nend \n",
        "tutti choices 2\na\t1\n", "{\"a\": 1}"};
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
        write_text(&p, foreign[i]);
        CHECK(has(&p, "a", NULL));
        keep(&p, "c", "3");
        CHECK(has(&p, "c", "3"));
    }
    tt_str_fini(&whole);
    remove_place(&p);
}

TEST(choices_that_cannot_be_written_are_known_to_this_process)
{
    const place p = make_place();
    keep(&p, "a", "1");
    for (int64_t k = 1; k <= 8; k++) {
        tt_choices *c = open_at(&p);
        tt_file_fail_from(k, ENOSPC);
        tt_choices_keep(c, "b", "2");
        tt_file_fail_from(0, 0);
        CHECK(strcmp(tt_choices_find(c, "b"), "2") == 0);
        tt_choices_close(c);
        CHECK(has(&p, "a", "1"));
    }
    remove_place(&p);
}

TEST(choices_where_a_folder_cannot_be_are_not_kept)
{
    place p = make_place();
    tt_choices *c = NULL;
    char longer[2 * PATH_MAX];
    snprintf(p.below, sizeof p.below, "%s/file", p.folder);
    snprintf(p.path, sizeof p.path, "%s", p.below);
    write_text(&p, "not a folder");
    keep(&p, "a", "1");
    CHECK(has(&p, "a", NULL));
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    CHECK_OK(tt_choices_open(longer, "x", &c));
    tt_choices_keep(c, "a", "1");
    CHECK(strcmp(tt_choices_find(c, "a"), "1") == 0);
    tt_choices_close(c);
    remove_place(&p);
}
