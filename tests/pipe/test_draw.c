// Pictures of schedules.

#include "../golden.h"
#include "../test.h"
#include "base/file.h"
#include "pipe/draw.h"
#include "pipe/text.h"

#include <string.h>

enum { WIDTH = 130 };

static tt_pipe_times *time_of(const tt_pipe *p, double seconds, double update)
{
    enum { MOST = 16 };
    double one[MOST], last[MOST];
    tt_pipe_times *t = NULL;
    CHECK(p->n_chunks <= MOST);
    for (int i = 0; i < MOST; i++) {
        one[i] = seconds;
        last[i] = update;
    }
    const tt_pipe_seconds all = {.row = {[TT_PIPE_FORWARD] = one,
                                         [TT_PIPE_INPUT_GRAD] = one,
                                         [TT_PIPE_WEIGHT_GRAD] = one,
                                         [TT_PIPE_UPDATE] = last}};
    CHECK_OK(tt_pipe_measure(p, &all, &t));
    return t;
}

static bool is_alone(const tt_pipe_def *def)
{
    return strcmp(def->name, "late") == 0;
}

// Four ranks, rows of one second (two chunks per rank: half a second). Without flush,
// updates take a second too.
static void draw(const tt_pipe_def *def, int32_t width, bool has_color,
                 tt_str *out)
{
    const bool is_endless = def->rule != TT_PIPE_FLUSH;
    const bool is_double = def->rule == TT_PIPE_DOUBLE;
    const bool has_chunks = strcmp(def->name, "interleaved") == 0;
    tt_pipe_shape shape = {4, 1 + has_chunks, 8, 1};
    if (is_endless)
        shape.micro = is_double ? 4 : 1, shape.steps = is_double ? 2 : 7;
    if (is_alone(def))
        shape = (tt_pipe_shape){1, 3, 1, 3};
    tt_pipe *p = NULL;
    CHECK_OK(tt_pipe_create(def, &shape, NULL, &p));
    tt_pipe_times *t = time_of(p, has_chunks ? 0.5 : 1, is_endless ? 1 : 0);
    tt_pipe_draw(p, t, &(tt_pipe_look){width, has_color}, out);
    tt_pipe_draw_figures(p, t, out);
    tt_pipe_times_destroy(t);
    tt_pipe_destroy(p);
}

TEST(golden_pictures_of_schedules)
{
    int n = 0;
    tt_str text = {0};
    const tt_pipe_def *const *all = tt_pipe_all(&n);
    for (int i = 0; i < n; i++) {
        tt_str_addf(&text, "%s%s\n\n", i > 0 ? "\n" : "", all[i]->name);
        draw(all[i], WIDTH, false, &text);
    }
    CHECK_OK(tt_str_status(&text));
    golden_compare("pipes", tt_str_text(&text));
    tt_str_fini(&text);
}

// A picture in the page is what is drawn.
TEST(the_page_on_pipelines_has_the_pictures_that_are_drawn)
{
    tt_str page = {0};
    int n = 0, n_pictures = 0;
    const tt_pipe_def *const *all = tt_pipe_all(&n);
    CHECK_OK(tt_file_read("docs/pipelines.md", 1 << 20, &page));
    for (int i = 0; i < n; i++) {
        tt_str text = {0}, block = {0}, head = {0};
        tt_str_addf(&head, "| `%s` |", all[i]->name);
        if (strstr(tt_str_text(&page), tt_str_text(&head)) == NULL)
            tt_test_fail(__FILE__, __LINE__, "the table has no %s",
                         all[i]->name);
        draw(all[i], WIDTH, false, &text);
        for (const char *at = tt_str_text(&text); strncmp(at, "rank ", 5) == 0;
             at = strchr(at, '\n') + 1) {
            int64_t length = strchr(at, '\n') - at;
            while (at[length - 1] == ' ')
                length--;
            tt_str_add(&block, "    ");
            tt_str_add_bytes(&block, at, length);
            tt_str_add(&block, "\n");
        }
        n_pictures += strstr(tt_str_text(&page), tt_str_text(&block)) != NULL;
        tt_str_fini(&text);
        tt_str_fini(&block);
        tt_str_fini(&head);
    }
    if (n_pictures != n)
        tt_test_fail(
            __FILE__, __LINE__,
            "docs/pipelines.md has %d of %d pictures as they are drawn "
            "(tests/golden/pipes.txt)",
            n_pictures, n);
    tt_str_fini(&page);
}

TEST(a_picture_fits_into_every_width)
{
    int n = 0;
    const tt_pipe_def *const *all = tt_pipe_all(&n);
    for (int i = 0; i < n; i++)
        for (int width = 40; width < 300; width += 7) {
            tt_str text = {0};
            draw(all[i], width, false, &text);
            const char *at = tt_str_text(&text);
            for (int r = 0; r < (is_alone(all[i]) ? 1 : 4);
                 r++, at = strchr(at, '\n') + 1)
                CHECK(strchr(at, '\n') - at <= width);
            tt_str_fini(&text);
        }
}

TEST(colours_are_used_only_when_asked_for)
{
    tt_str plain = {0}, colored = {0};
    draw(tt_pipe_find("zb-h1"), 120, false, &plain);
    draw(tt_pipe_find("zb-h1"), 120, true, &colored);
    CHECK(strchr(tt_str_text(&plain), '\x1b') == NULL);
    CHECK(strstr(tt_str_text(&colored), "\x1b[97;44mF0") != NULL);
    // Without the sequences both are the same but for the filling.
    tt_str bare = {0};
    for (const char *c = tt_str_text(&colored); *c != '\0'; c++)
        if (*c == '\x1b')
            c = strchr(c, 'm');
        else
            tt_str_add_bytes(&bare, c, 1);
    CHECK(strcmp(tt_str_text(&bare), tt_str_text(&plain)) == 0);
    tt_str_fini(&plain);
    tt_str_fini(&colored);
    tt_str_fini(&bare);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        n++;
    return n;
}

TEST(an_svg_has_every_row_and_escapes_names)
{
    static const char text[] = "schedule <a&\"b\">\nfill\nranks 2\nchunks 2\n"
                               "micro 1\nrank 0\nF0.0 B0.0 U0.0\n"
                               "rank 1\nF1.0 B1.0 U1.0\n";
    tt_pipe *p = NULL;
    tt_str svg = {0};
    CHECK_OK(tt_pipe_parse(text, sizeof(text) - 1, "t", &p));
    tt_pipe_times *t = time_of(p, 1, 0);
    tt_pipe_draw_svg(p, t, &svg);
    CHECK_OK(tt_str_status(&svg));
    CHECK(count(tt_str_text(&svg), "<rect class=\"r ") == 4);
    CHECK(count(tt_str_text(&svg), "<a&") == 0);
    CHECK(count(tt_str_text(&svg), "&lt;a&amp;&quot;b&quot;&gt;") == 2);
    CHECK(count(tt_str_text(&svg), "prefers-color-scheme:dark") == 1);
    CHECK(count(tt_str_text(&svg),
                "rank 1, row 2: backward of chunk 1, "
                "micro-batch 0\nslot 0\nfrom 2 s to 4 s") == 1);
    // Nothing takes time: still a picture.
    tt_pipe_times_destroy(t);
    CHECK_OK(tt_pipe_measure_even(p, &(tt_pipe_even){0, 0, 0}, &t));
    tt_str_clear(&svg);
    tt_pipe_draw_svg(p, t, &svg);
    tt_pipe_draw(p, t, &(tt_pipe_look){80, false}, &svg);
    CHECK(count(tt_str_text(&svg), "nan") == 0);
    CHECK(count(tt_str_text(&svg), "inf") == 0);
    tt_pipe_times_destroy(t);
    tt_pipe_destroy(p);
    tt_str_fini(&svg);
}
