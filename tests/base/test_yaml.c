// Configuration files: what is read, what is refused, and where.

#include "base/alloc.h"
#include "base/settings/yaml.h"
#include "base/str.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Parses `text` as "f.yaml" and gives "key=value@line:column" lines.
static tt_status flatten(const char *text, tt_str *flat)
{
    tt_arena *arena = tt_arena_create();
    tt_settings s = {0};
    const tt_status status =
        tt_yaml_parse(text, (int64_t)strlen(text), "f.yaml", arena, &s);
    for (int64_t i = 0; i < s.n; i++)
        tt_str_addf(flat, "%s=%s@%s\n", s.v[i].key, s.v[i].value,
                    s.v[i].origin + strlen("f.yaml:"));
    tt_arena_destroy(arena);
    return status;
}

static bool reads(const char *text, const char *want)
{
    tt_str flat = {0};
    const bool is_same =
        flatten(text, &flat) == TT_OK && strcmp(tt_str_text(&flat), want) == 0;
    if (!is_same)
        fprintf(stderr, "%s\n%s", tt_error_message(), tt_str_text(&flat));
    tt_str_fini(&flat);
    return is_same;
}

static bool refuses(const char *text, const char *message)
{
    tt_str flat = {0};
    const bool is_same = flatten(text, &flat) == TT_ERR_ARG && flat.n == 0 &&
                         strcmp(tt_error_message(), message) == 0;
    if (!is_same)
        fprintf(stderr, "%s\n%s", tt_error_message(), tt_str_text(&flat));
    tt_str_fini(&flat);
    return is_same;
}

TEST(yaml_flattens_in_order)
{
    CHECK(reads("# a comment\n"
                "model:\n"
                "  layers: 6   # blocks\n"
                "  kernel: [3, 3]\n"
                "  deep: {er: {x: 1}}\n"
                "list:\n"
                "  - a\n"
                "  - \"b c\"\n"
                "batch: 8\n",
                "model.layers=6@3:3\nmodel.kernel=[3, 3]@4:3\n"
                "model.deep.er.x=1@5:15\nlist=[a, b c]@6:1\nbatch=8@9:1\n"));
}

TEST(yaml_takes_dotted_keys_beside_scalars)
{
    CHECK(reads("model: gpt\nmodel.layers: 6\n",
                "model=gpt@1:1\nmodel.layers=6@2:1\n"));
    CHECK(reads("a.b:\n  c: 1\na:\n  b.d: 2\n", "a.b.c=1@2:3\na.b.d=2@4:3\n"));
}

TEST(yaml_keeps_text_as_written)
{
    CHECK(reads("a: yes\nb: 1e-3\nc: 'it''s'\nd: \"\"\ne: []\nf: {}\ng: 007\n",
                "a=yes@1:1\nb=1e-3@2:1\nc=it's@3:1\nd=@4:1\ne=[]@5:1\n"
                "g=007@7:1\n"));
    CHECK(reads("a: >\n  two\n  lines\n", "a=two lines\n@1:1\n"));
    CHECK(reads("---\na: 1\n...\n", "a=1@2:1\n"));
    CHECK(reads("\xef\xbb\xbf"
                "a: \xc3\xa9\n",
                "a=\xc3\xa9@1:1\n"));
}

TEST(yaml_refuses_a_key_given_twice)
{
    CHECK(refuses("a: 1\nb: 2\na: 3\n",
                  "f.yaml:3:1: a is given twice; the first is at f.yaml:1:1"));
    CHECK(refuses("m:\n  a: 1\nm.a: [1]\n", "f.yaml:3:1: m.a is given twice; "
                                            "the first is at f.yaml:2:3"));
}

TEST(yaml_refuses_what_no_configuration_needs)
{
    CHECK(refuses("a: &x 1\n", "f.yaml:1:4: anchors (&name) are not supported; "
                               "leave it out"));
    CHECK(refuses("a: &x {b: 1}\n", "f.yaml:1:4: anchors (&name) are not "
                                    "supported; leave it out"));
    CHECK(refuses("a: *x\n", "f.yaml:1:4: aliases (*name) are not supported; "
                             "write it out"));
    CHECK(refuses("a:\n  <<: {b: 1}\n", "f.yaml:2:3: merges (<<) are not "
                                        "supported; write it out"));
    CHECK(refuses("a: !!int 3\n",
                  "f.yaml:1:4: tags (!type) are not supported; leave it out"));
    CHECK(refuses("a: 1\n---\nb: 1\n",
                  "f.yaml:2:1: a second document begins; there may be only "
                  "one"));
    CHECK(
        refuses("a: [[1]]\n", "f.yaml:1:5: a list may only hold plain values"));
    CHECK(refuses("a: [1, '2,3']\n", "f.yaml:1:8: a list item must not be "
                                     "empty or contain a comma or bracket"));
    CHECK(refuses("? [1]\n: 2\n", "f.yaml:1:3: a key must be a plain name"));
    CHECK(refuses("a b: 2\n", "f.yaml:1:1: a key consists of letters, digits, "
                              "_, -, *, ? and dots between them"));
    CHECK(refuses("a..b: 2\n", "f.yaml:1:1: a key consists of letters, digits, "
                               "_, -, *, ? and dots between them"));
    CHECK(refuses("a: \"x\\0y\"\n", "f.yaml:1:4: a contains a zero byte"));
}

TEST(yaml_refuses_what_says_nothing)
{
    CHECK(refuses("", "f.yaml: the file is empty; settings are written as "
                      "\"model: gpt\", one a line"));
    CHECK(refuses("# nothing\n", "f.yaml: has no settings; they are written as "
                                 "\"model: gpt\", one a line"));
    CHECK(refuses("model:\n", "f.yaml:1:1: model has no value"));
    CHECK(refuses("a: ~\n", "f.yaml:1:1: a has no value"));
    CHECK(refuses("just text\n",
                  "f.yaml:1:1: expected settings of the form "
                  "\"key: value\", with a blank after the colon, one a line"));
    CHECK(refuses("- 1\n- 2\n",
                  "f.yaml:1:1: expected settings of the form "
                  "\"key: value\", with a blank after the colon, one a line"));
}

TEST(yaml_says_where_the_syntax_is_wrong)
{
    CHECK(refuses("a: b: c\n",
                  "f.yaml:1:5: a second colon, or more blanks in front than "
                  "the line above has; write one \"key: value\" a line, and "
                  "values with a colon in quotes"));
    CHECK(refuses("a: [1, 2\nb: 3\n",
                  "f.yaml:2:2: a bracket that is not closed; close it"));
    CHECK(refuses("a: 1\n\tb: 2\n", "f.yaml:2:1: a tab; indent with blanks"));
    CHECK(refuses("a: \x01\n", "f.yaml: not a text file: control characters "
                               "are not allowed at byte 3"));
    CHECK(refuses("a: \xff\xfe\n", "f.yaml: not a text file: invalid leading "
                                   "UTF-8 octet at byte 3"));
}

static void add_nested(tt_str *text, int depth)
{
    for (int i = 0; i < depth; i++)
        tt_str_add(text, "{a: ");
    tt_str_add(text, "1");
    for (int i = 0; i < depth; i++)
        tt_str_add(text, "}");
}

TEST(yaml_refuses_deep_nesting)
{
    tt_str text = {0}, flat = {0};
    add_nested(&text, 16);
    CHECK(flatten(tt_str_text(&text), &flat) == TT_OK);
    tt_str_clear(&text);
    add_nested(&text, 17);
    CHECK(refuses(tt_str_text(&text),
                  "f.yaml:1:65: nested deeper than 16 levels"));
    tt_str_clear(&text);
    tt_str_add(&text, "a: ");
    for (int i = 0; i < 100000; i++)
        tt_str_add(&text, "[");
    CHECK(refuses(tt_str_text(&text),
                  "f.yaml:1:5: a list may only hold plain values"));
    tt_str_fini(&text);
    tt_str_fini(&flat);
}

TEST(yaml_refuses_long_and_many_keys)
{
    tt_str text = {0};
    for (int i = 0; i < 300; i++)
        tt_str_add(&text, "k");
    tt_str_add(&text, ": 1\n");
    CHECK(refuses(tt_str_text(&text), "f.yaml:1:1: the key is too long"));
    tt_str_clear(&text);
    for (int i = 0; i <= TT_SETTINGS_MAX; i++)
        tt_str_addf(&text, "k%d: 1\n", i);
    CHECK(refuses(tt_str_text(&text),
                  "f.yaml:4097:1: there are more than 4096 settings"));
    tt_str_fini(&text);
}

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL && fwrite(bytes, 1, n, f) == n);
    fclose(f);
}

static bool file_fails(const char *path, tt_status code, const char *message)
{
    tt_arena *arena = tt_arena_create();
    tt_settings s = {.n = -1};
    const tt_status status = tt_yaml_read(path, arena, &s);
    tt_arena_destroy(arena);
    if (strcmp(tt_error_message(), message) != 0)
        fprintf(stderr, "%s\n", tt_error_message());
    return status == code && s.n == -1 &&
           strcmp(tt_error_message(), message) == 0;
}

TEST(yaml_reads_files_and_refuses_other_things)
{
    char folder[] = "/tmp/tutti-yaml-XXXXXX";
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0);
    write_file("good.yaml", "a: 1\n", 5);
    tt_arena *arena = tt_arena_create();
    tt_settings s = {0};
    CHECK(tt_yaml_read("good.yaml", arena, &s) == TT_OK && s.n == 1);
    CHECK(strcmp(s.v[0].origin, "good.yaml:1:1") == 0);
    tt_arena_destroy(arena);
    CHECK(file_fails("none.yaml", TT_ERR_IO,
                     "none.yaml: cannot be opened: No "
                     "such file or directory"));
    CHECK(
        file_fails(".", TT_ERR_IO,
                   ".: cannot be read: it is a folder, and a file is wanted"));
    write_file("empty.yaml", "", 0);
    CHECK(file_fails("empty.yaml", TT_ERR_ARG,
                     "empty.yaml: the file is empty; settings are written as "
                     "\"model: gpt\", one a line"));
    write_file("binary", "\177ELF\0\0", 6);
    CHECK(file_fails("binary", TT_ERR_ARG,
                     "binary: not a text file: it contains zero bytes"));
    char *large = tt_alloc(TT_YAML_BYTES_MAX + 1);
    memset(large, '\n', TT_YAML_BYTES_MAX + 1);
    write_file("large", large, TT_YAML_BYTES_MAX + 1);
    tt_free(large);
    CHECK(file_fails("large", TT_ERR_ARG,
                     "large: larger than 16 MiB, so not a configuration"));
    CHECK(unlink("good.yaml") == 0 && unlink("empty.yaml") == 0);
    CHECK(unlink("binary") == 0 && unlink("large") == 0);
    CHECK(chdir("/") == 0 && rmdir(folder) == 0);
    CHECK(tt_alloc_live() == 0);
}

TEST(yaml_survives_every_allocation_failure)
{
    static const char text[] = "m:\n  a: 1\n  b: [1, 2]\nc: x\n";
    for (int64_t k = 1; k < 100; k++) {
        tt_settings s = {0};
        tt_alloc_fail_at(k);
        tt_arena *arena = tt_arena_create();
        tt_status status = TT_ERR_NOMEM;
        if (arena != NULL)
            status = tt_yaml_parse(text, sizeof(text) - 1, "f", arena, &s);
        const bool is_done = tt_alloc_count() < k;
        tt_alloc_fail_at(0);
        CHECK(status == (is_done ? TT_OK : TT_ERR_NOMEM));
        CHECK(s.n == (is_done ? 3 : 0));
        tt_arena_destroy(arena);
        CHECK(tt_alloc_live() == 0);
        if (is_done)
            return;
    }
    CHECK_MSG(false, "never finished");
}
