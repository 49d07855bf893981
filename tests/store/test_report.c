// The report: everything is escaped, nothing in a picture is no number, and
// neither a cut file nor a long run harms it.

#include "base/alloc.h"
#include "store/report.h"
#include "test.h"

#include <stdint.h>
#include <string.h>

static tt_str page;

static const char *make(const char *facts, const char *metrics)
{
    tt_report_files files = {.folder = "runs/one"};
    tt_str_add(&files.facts, facts);
    tt_str_add(&files.metrics, metrics);
    tt_str_add(&files.config, "model: \"<gpt>\" & 'co'\n");
    tt_str_add(&files.log, "note \033[31m \xff<script>alert(1)</script>\n");
    tt_str_clear(&page);
    CHECK_OK(tt_report_page(&files, &page));
    tt_str_fini(&files.facts);
    tt_str_fini(&files.metrics);
    tt_str_fini(&files.config);
    tt_str_fini(&files.log);
    return tt_str_text(&page);
}

static bool has(const char *text)
{
    return strstr(tt_str_text(&page), text) != NULL;
}

static int64_t count(const char *text)
{
    int64_t n = 0;
    for (const char *p = tt_str_text(&page); (p = strstr(p, text)) != NULL; p++)
        n++;
    return n;
}

// Between the first <svg and the last </svg>: numbers only.
static void check_pictures(void)
{
    CHECK(!has("=\"nan") && !has("=\"-nan") && !has("=\"inf"));
    CHECK(!has("Mnan") && !has("Lnan") && !has("M-nan") && !has(" nan"));
    CHECK(!has("Minf") && !has("Linf") && !has(" inf") && !has(" -inf"));
    CHECK(count("<svg") == count("</svg>"));
    CHECK(count("<figure") == count("</figure>"));
}

TEST(report_escapes_all_it_is_given)
{
    make("{\"title\":\"<b>\",\"facts\":{\"a<\":\"\\\"x\\\">\"}}",
         "{\"step\":1,\"<i>metric\":2}\n");
    CHECK(!has("<script") && !has("<b></title>") && !has("<i>metric"));
    CHECK(has("&lt;b&gt;</title>") && has("&lt;i&gt;metric"));
    CHECK(has("a&lt;</th>") && has("&quot;x&quot;&gt;"));
    CHECK(has("&lt;gpt&gt;&quot; &amp; &#39;co&#39;"));
    CHECK(!has("\033") && !has("\xff") && has("\xef\xbf\xbd"));
    CHECK(!has("http")); // needs nothing from elsewhere
    tt_str_fini(&page);
    CHECK(tt_alloc_live() == 0);
}

TEST(report_shows_curves_and_their_best)
{
    make("", "{\"step\":10,\"train/loss\":4,\"lr\":0.1}\n"
             "{\"step\":10,\"val/loss\":3.5,\"val/accuracy\":0.5}\n"
             "{\"step\":20,\"train/loss\":2,\"lr\":0.05}\n"
             "{\"step\":20,\"val/loss\":2.25,\"val/accuracy\":0.75}\n"
             "{\"step\":30,\"val/loss\":2.5,\"val/accuracy\":0.625}\n"
             "{\"step\":40,\"train/lo");
    CHECK(count("<svg") == 3); // loss, accuracy, learning rate
    CHECK(has(">2.2500</b>") && has(">75.00%</b>") && has(">2.0000</b>"));
    CHECK(has("best 2.25<") && has("best 75.00%<"));
    check_pictures();
    tt_str_fini(&page);
}

TEST(report_survives_odd_numbers)
{
    static const char *const metrics[] = {
        "",
        "\n\n",
        "{\"step\":1,\"train/loss\":null}\n",
        "{\"step\":1,\"train/loss\":2}\n",
        "{\"step\":0,\"train/loss\":0}\n{\"step\":0,\"train/loss\":0}\n",
        "{\"step\":1,\"train/loss\":1e308}\n{\"step\":2,\"train/loss\":-1e308}",
        "{\"step\":1,\"train/loss\":1e-308}\n{\"step\":2,\"train/loss\":1e299}",
        "{\"step\":-5,\"lr\":3}\n{\"step\":9e15,\"lr\":3}\n",
        "{\"step\":3,\"lr\":1}\n{\"step\":1,\"lr\":2}\n{\"step\":2,\"lr\":0}\n",
        "{\"step\":1e400,\"lr\":1}\n[1]\n\"x\"\n{\"lr\":1}\n{}\n",
        "{\"step\":1,\"lr\":1e-320}\n{\"step\":1e-300,\"lr\":0}\n",
    };
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        make("[1,{}]", metrics[i]);
        check_pictures();
        CHECK(has("</html>"));
    }
    tt_str_fini(&page);
}

TEST(report_of_a_long_run_is_small)
{
    tt_str metrics = {0};
    for (int i = 1; i <= 200000; i++)
        tt_str_addf(&metrics, "{\"step\":%d,\"time\":%d,\"train/loss\":%d.5}\n",
                    i, i, i == 77777 ? 900 : 2 + i % 7);
    make("{}", tt_str_text(&metrics));
    CHECK(page.n < 200 << 10);
    CHECK(has(">900<") || has(">1000<") || has(">500<")); // the peak is seen
    check_pictures();
    tt_str_fini(&metrics);
    tt_str_fini(&page);
}

TEST(report_says_when_memory_runs_out)
{
    for (int64_t k = 1;; k++) {
        tt_report_files files = {.folder = "r"};
        tt_str out = {0};
        tt_str_add(&files.metrics,
                   "{\"step\":1,\"lr\":1}\n{\"step\":2,\"lr\":2}");
        tt_str_add(&files.facts, "{\"title\":\"t\"}");
        tt_alloc_fail_at(k);
        const tt_status status = tt_report_page(&files, &out);
        const bool has_failed = tt_alloc_count() >= k;
        tt_alloc_fail_at(0);
        CHECK(has_failed || status == TT_OK);
        CHECK(status == TT_OK || status == TT_ERR_NOMEM);
        tt_str_fini(&out);
        tt_str_fini(&files.metrics);
        tt_str_fini(&files.facts);
        CHECK(tt_alloc_live() == 0);
        if (!has_failed)
            break;
    }
}

TEST(report_facts_are_read_back)
{
    const tt_report_row rows[] = {{"model", "gpt \"2\""}, {NULL, NULL}};
    const tt_report_facts facts = {.title = "t",
                                   .outcome = "done",
                                   .unit = "tokens",
                                   .seconds = 10,
                                   .input_stall = 0.25,
                                   .facts = rows};
    tt_str text = {0};
    CHECK_OK(tt_report_facts_text(&facts, &text));
    make(tt_str_text(&text), "{\"step\":1,\"lr\":1}\n");
    CHECK(has("gpt &quot;2&quot;") && has("is-good\">done<"));
    CHECK(has("waiting for data 25.0%") && has("computing 75.0%"));
    tt_str_fini(&text);
    tt_str_fini(&page);
}

static void make_ranks(const char *ranks)
{
    tt_report_files files = {.folder = "runs/one"};
    tt_str_add(&files.metrics, "{\"step\":1,\"comm/exposed_seconds\":0.5,"
                               "\"comm/hidden_seconds\":1}\n");
    tt_str_add(&files.ranks, ranks);
    tt_str_clear(&page);
    CHECK_OK(tt_report_page(&files, &page));
    tt_str_fini(&files.metrics);
    tt_str_fini(&files.ranks);
}

TEST(report_shows_what_ranks_did)
{
    make_ranks("{\"ranks\":[{\"rank\":0,\"host\":\"a<\",\"bytes\":2048,"
               "\"messages\":7,\"exposed_seconds\":0.25,"
               "\"kernel_seconds\":3},{\"rank\":1,\"kernel_seconds\":4}],"
               "\"collectives\":{\"sentence\":\"rank 1 (<b>) was late\","
               "\"by_name\":[{\"name\":\"bucket<1>\",\"count\":3,"
               "\"spread_seconds\":0.0021}]}}");
    CHECK(has("<h2>Ranks</h2>") && has("0 a&lt;") && has("2.05 kB"));
    CHECK(has("Rank 1 (&lt;b&gt;) was late.") && has("250 ms"));
    CHECK(has("bucket&lt;1&gt;") && has("2.1 ms"));
    CHECK(has(">exposed<") && has(">hidden<"));
    check_pictures();
    tt_str_fini(&page);
}

TEST(report_leaves_out_ranks_that_make_no_sense)
{
    static const char *const odd[] = {
        "",
        "{",
        "[]",
        "{\"ranks\":{}}",
        "{\"ranks\":[]}",
        "{\"ranks\":[1],\"collectives\":{\"by_name\":[null]}}",
        ("{\"ranks\":[{\"rank\":1e999,\"bytes\":-1,\"messages\":null,"
         "\"kernel_seconds\":\"x\"}],\"collectives\":[]}")};
    for (int i = 0; i < 7; i++) {
        make_ranks(odd[i]);
        CHECK(has("<h2>Ranks</h2>") == (i >= 5));
        check_pictures();
    }
    tt_str_fini(&page);
}
