// What the data of a run are: every change is noticed, and nothing else is.

#include "base/alloc.h"
#include "data/shelf.h"
#include "session/fingerprint.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const tt_fingerprint *take(const char *settings, tt_arena *arena)
{
    const tt_fingerprint *f = NULL, *back = NULL;
    const tt_json_value *root = NULL;
    tt_data *data = tt_shelf_open(settings);
    CHECK_OK(tt_fingerprint_take(data, arena, &f));
    tt_data_close(data);
    tt_str text = {0};
    tt_json json = {.out = &text};
    tt_json_open(&json, NULL, '{');
    tt_fingerprint_print(f, &json, "data");
    tt_json_close(&json, '}');
    CHECK_OK(tt_json_read(tt_str_text(&text), text.n, "t", arena, &root));
    CHECK_OK(tt_fingerprint_read(tt_json_get(root, "data"), arena, &back));
    CHECK(f->n == 0 || back != NULL);
    if (back != NULL)
        CHECK(back->n == f->n && back->files == f->files &&
              back->is_whole == f->is_whole);
    tt_str_fini(&text);
    return back;
}

// `file` gets other contents between two looks; `says` is in the refusal, "": there
// is none.
static void changes(const char *settings, const char *file, const char *text,
                    const char *says)
{
    tt_arena *arena = tt_arena_create();
    tt_str notes = {0};
    const tt_fingerprint *then = take(settings, arena);
    tt_shelf_text(file, text);
    const tt_fingerprint *now = take(settings, arena);
    const tt_status status = tt_fingerprint_compare(then, now, "RUN", &notes);
    if (says[0] == '\0')
        CHECK_MSG(status == TT_OK, "%s: %s", settings, tt_error_message());
    else
        CHECK_MSG(status == TT_ERR_ARG &&
                      strstr(tt_error_message(), says) != NULL &&
                      strstr(tt_error_message(), "--fork") != NULL,
                  "%s: %s", settings, tt_error_message());
    CHECK(notes.n == 0);
    tt_str_fini(&notes);
    tt_arena_destroy(arena);
}

TEST(a_change_of_the_data_that_keeps_the_length_is_noticed)
{
    tt_shelf_begin();
    const char *text = "data=text data.path=a.txt data.holdout=0";
    tt_shelf_text("a.txt", "to be or not to be, that is the question");
    tt_shelf_text("b.txt", "in the beginning was the word and not more");
    changes(text, "a.txt", "to be or not to be, that is the question", "");
    changes(
        text, "a.txt", "to be or not to be, that is tho quostien",
        "a.txt has changed since the last checkpoint, though not in length");
    changes(text, "a.txt", "to be to be",
            "a.txt has changed since the last "
            "checkpoint, from 40 to 11 bytes");
    changes("data=text data.path=b.txt data.val=a.txt", "a.txt", "ot eb ot eb",
            "a.txt has changed");
    changes("data=text data.path=*.txt data.holdout=0", "c.txt", "more",
            "c.txt was not among the data and is now");
    tt_shelf_text("a.csv", "x,y\n1,0\n2,1\n3,0\n4,1\n");
    changes("data=csv data.path=a.csv", "a.csv", "x,y\n1,0\n2,1\n3,0\n5,1\n",
            "a.csv has changed");
    tt_shelf_text("t.bin", "0123456789abcdefghij");
    changes("data=tokens data.path=t.bin data.holdout=0.5", "t.bin",
            "0123456789abcdefghik", "t.bin has changed");
    tt_shelf_end();
}

TEST(a_tokenizer_that_changed_is_noticed)
{
    tt_shelf_begin();
    tt_arena *arena = tt_arena_create();
    tt_str notes = {0};
    tt_shelf_text("a.txt", "abababababababababababab");
    const char *chars = "data=text data.path=a.txt data.holdout=0";
    const char *bytes =
        "data=text data.path=a.txt data.tokenizer=bytes data.holdout=0";
    const tt_fingerprint *then = take(chars, arena);
    CHECK(tt_fingerprint_compare(then, take(bytes, arena), "RUN", &notes) ==
          TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "data.tokenizer) has changed") != NULL);
    CHECK_OK(tt_fingerprint_compare(then, take(chars, arena), "RUN", &notes));
    tt_arena_destroy(arena);
    tt_shelf_end();
}

TEST(checkpoints_without_a_fingerprint_are_taken_as_they_are)
{
    static const char *const old[] = {
        "{}", "{\"data\": 3}", "{\"data\": {\"kind\": \"other\"}}",
        "{\"data\": {\"kind\": \"xxh3-128 1\", \"groups\": 1}}"};
    tt_shelf_begin();
    tt_arena *arena = tt_arena_create();
    tt_str notes = {0};
    tt_shelf_text("a.txt", "to be or not to be");
    const tt_fingerprint *now =
        take("data=text data.path=a.txt data.holdout=0", arena);
    for (size_t i = 0; i < sizeof old / sizeof *old; i++) {
        const tt_fingerprint *then = now;
        CHECK_OK(tt_fingerprint_of_state(old[i], "t", arena, &then));
        CHECK(then == NULL);
        CHECK_OK(tt_fingerprint_compare(then, now, "RUN", &notes));
    }
    CHECK(take("data=synthetic", arena) == NULL);
    tt_arena_destroy(arena);
    tt_shelf_end();
}

// More files than groups: a group is named, and many names make no longer text.
TEST(of_many_files_a_group_is_named)
{
    enum { N = 1000 };
    tt_shelf_begin();
    char name[32];
    CHECK(mkdir("d", 0777) == 0);
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "d/%04d.txt", i);
        tt_shelf_text(name, "some words");
    }
    changes("data=text data.path=d data.holdout=0", "d/0501.txt", "some other",
            "one of the 3 files from d/0500.txt to d/0502.txt has changed");
    changes("data=text data.path=d data.holdout=0", "d/9.txt", "x",
            "the data had 1000 files and have 1001");
    tt_shelf_end();
}

// Where not all is hashed, blocks at the ends and in between are, and times count.
TEST(of_much_data_samples_are_hashed)
{
    enum { BYTES = 5 };
    tt_shelf_begin();
    tt_arena *arena = tt_arena_create();
    tt_str notes = {0};
    const char *settings = "data=tokens data.path=t.bin data.dtype=u8";
    const int64_t size = (int64_t)TT_FINGERPRINT_BYTES + 12345;
    tt_shelf_text("t.bin", "");
    CHECK(truncate("t.bin", size) == 0);
    const tt_fingerprint *then = take(settings, arena);
    CHECK(!then->is_whole && then->bytes == size && then->v[0].time != 0);
    CHECK_OK(tt_fingerprint_compare(then, take(settings, arena), "R", &notes));
    CHECK(notes.n == 0);
    FILE *file = fopen("t.bin", "r+b");
    CHECK(file != NULL && fseek(file, -1, SEEK_END) == 0);
    CHECK(fputc(1, file) == 1 && fclose(file) == 0);
    CHECK(tt_fingerprint_compare(then, take(settings, arena), "R", &notes) ==
          TT_ERR_ARG);
    then = take(settings, arena);
    file = fopen("t.bin", "r+b");
    CHECK(file != NULL && fseek(file, 64 << 10, SEEK_SET) == 0);
    CHECK(fputc(BYTES, file) == BYTES && fclose(file) == 0); // between blocks
    CHECK_OK(tt_fingerprint_compare(then, take(settings, arena), "R", &notes));
    CHECK(strstr(tt_str_text(&notes), "t.bin was written since") != NULL);
    tt_str_fini(&notes);
    tt_arena_destroy(arena);
    tt_shelf_end();
}

TEST(a_fingerprint_under_every_allocation_that_fails)
{
    tt_shelf_begin();
    tt_shelf_text("a.txt", "to be or not to be");
    tt_data *data = tt_shelf_open("data=text data.path=a.txt data.holdout=0");
    tt_status status = TT_ERR_NOMEM;
    for (int64_t k = 1; status != TT_OK; k++) {
        const tt_fingerprint *f = NULL;
        tt_arena *arena = tt_arena_create();
        tt_alloc_fail_at(k);
        status = tt_fingerprint_take(data, arena, &f);
        tt_alloc_fail_at(0);
        CHECK(status == TT_OK || (status == TT_ERR_NOMEM && f == NULL));
        tt_arena_destroy(arena);
        CHECK(k < 100);
    }
    tt_data_close(data);
    tt_shelf_end();
}
