// The report: everything is escaped, nothing in a picture is no number, and
// neither a cut file nor a long run harms it.

#include "base/alloc.h"
#include "store/report/report.h"
#include "store/report/report_parts.h"
#include "test.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
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
    CHECK(!has("<script>alert") && !has("<b></title>") && !has("<i>metric"));
    CHECK(has("&lt;b&gt;</title>") && has("&lt;i&gt;metric"));
    CHECK(has("a&lt;</th>") && has("&quot;x&quot;&gt;"));
    CHECK(has("&lt;gpt&gt;&quot; &amp; &#39;co&#39;"));
    CHECK(!has("\033") && !has("\xff") && has("\xef\xbf\xbd"));
    CHECK(!has("http:") && !has("https")); // needs nothing from elsewhere
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
    CHECK(has(">2.2500</dd>") && has(">75.00%</dd>") && has(">2.0000</dd>"));
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
    const tt_report_facts facts = {
        .title = "t",
        .outcome = "done",
        .unit = "tokens",
        .time = {.total = 10, .computing = 7.5, .data = 2.5},
        .facts = rows};
    tt_str text = {0};
    CHECK_OK(tt_report_facts_text(&facts, &text));
    make(tt_str_text(&text), "{\"step\":1,\"lr\":1}\n");
    CHECK(has("gpt &quot;2&quot;") && has("is-good\">done<"));
    CHECK(has("waiting for data 25.0%</span>") &&
          has("computing 75.0%</span>"));
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
    CHECK(has("waiting for the network</span>"));
    CHECK(has("hidden by computing</span>"));
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

// ---- curves --------------------------------------------------------------

static tt_metric_series series_of(const double *value, int64_t n)
{
    static int64_t step[1000];
    for (int64_t i = 0; i < n; i++)
        step[i] = i;
    return (tt_metric_series){"x", n, step, value};
}

// A mean begins and ends at values that were, a straight line stays where it is, and
// a value that was huge leaves nothing behind.
TEST(report_means_have_no_bias)
{
    double value[101];
    const tt_metric_series s = series_of(value, 101);
    for (int i = 0; i < 101; i++)
        value[i] = 10 - 0.0625 * i;
    for (int i = 0; i < 101; i++)
        CHECK_MSG(fabs(tt__series_mean(&s, 21, i) - value[i]) < 1e-12, "%d", i);
    value[50] = 1e30;
    CHECK(tt__series_mean(&s, 21, 39) == value[39]);
    CHECK(tt__series_mean(&s, 21, 61) == value[61]);
    value[50] = (double)NAN;
    value[0] = 400;
    CHECK(tt__series_mean(&s, 21, 0) == 400);
    CHECK(isfinite(tt__series_mean(&s, 21, 50)));
}

// The <figure> whose title is so, as text.
static tt_str figure_of(const char *title)
{
    tt_str figure = {0}, mark = {0};
    tt_str_addf(&mark, "<figcaption><b>%s</b>", title);
    const char *at = strstr(tt_str_text(&page), tt_str_text(&mark));
    const char *end = at != NULL ? strstr(at, "</figure>") : NULL;
    CHECK(end != NULL);
    if (end != NULL)
        tt_str_add_bytes(&figure, at, end - at);
    tt_str_fini(&mark);
    return figure;
}

// Where the first line of a kind begins: its y, of 1000 from the top.
static double first_y(const char *figure, const char *kind)
{
    const char *at = strstr(figure, kind);
    at = at != NULL ? strstr(at, " d=\"M") : NULL;
    at = at != NULL ? strchr(at + 5, ' ') : NULL;
    return at != NULL ? strtod(at, NULL) : (double)NAN;
}

static void make_falling(void)
{
    tt_str metrics = {0};
    for (int i = 0; i <= 1000; i++)
        tt_str_addf(&metrics,
                    "{\"step\":%d,\"seconds\":%d,\"train/loss\":%g,"
                    "\"lr\":%g}\n",
                    10 * i, 2 * i, 1 + 9 * exp(-i / 20.0),
                    i < 100 ? i * 1e-5 : 1e-3);
    make("{\"unit\":\"tokens\",\"units\":2048}", tt_str_text(&metrics));
    tt_str_fini(&metrics);
}

TEST(report_smooths_the_loss_from_its_first_value_and_the_rate_never)
{
    make_falling();
    tt_str loss = figure_of("Loss"), rate = figure_of("Learning rate");
    const double raw = first_y(tt_str_text(&loss), "class=\"raw train\"");
    const double line = first_y(tt_str_text(&loss), "class=\"line train\"");
    CHECK_MSG(raw == line && raw < 100, "%g %g", raw, line);
    CHECK(strstr(tt_str_text(&rate), "class=\"raw") == NULL);
    CHECK(strstr(tt_str_text(&rate), "mean of") == NULL);
    CHECK(strstr(tt_str_text(&loss), "faint: each logged value") != NULL);
    CHECK(strstr(tt_str_text(&loss), "mean of 41 logged values") != NULL);
    tt_str_fini(&loss);
    tt_str_fini(&rate);
    tt_str_fini(&page);
}

TEST(report_lets_the_reader_choose_axes_of_the_loss)
{
    make_falling();
    tt_str loss = figure_of("Loss");
    const char *text = tt_str_text(&loss);
    static const char *const wanted[] = {"class=\"sx0\" checked",
                                         "class=\"sx1\"",
                                         "class=\"sx2\"",
                                         "class=\"sy0\" checked",
                                         "class=\"sy1\"",
                                         "<em>step</em>",
                                         "<em>minutes of training</em>",
                                         "<em>tokens</em>",
                                         "<em>loss, log scale</em>",
                                         "<em>loss</em>",
                                         "20.48M"};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        CHECK_MSG(strstr(text, wanted[i]) != NULL, "%s", wanted[i]);
    CHECK(has("<figure class=\"wide\"><figcaption><b>Loss"));
    CHECK(has("aria-label=\"Loss: training from 10 at step 0 to 1 at step "
              "10000\""));
    CHECK(has("The curves as numbers") && has("<th scope=\"col\">lr</th>"));
    tt_str_fini(&loss);
    // Where there is no logarithm there is no choice of it.
    make("", "{\"step\":1,\"train/loss\":-1}\n{\"step\":2,\"train/loss\":2}");
    CHECK(!has("sy0\"") && !has("log scale"));
    tt_str_fini(&page);
}

// ---- how it went ---------------------------------------------------------

TEST(report_of_a_failed_run_says_why_before_all_else)
{
    make("{\"outcome\":\"failed\",\"error\":\"the loss is <NaN>\"}",
         "{\"step\":7,\"train/loss\":2}\n");
    CHECK(has("role=\"alert\"><b>Failed after step 7:</b> the loss is "
              "&lt;NaN&gt;</p>"));
    CHECK(strstr(tt_str_text(&page), "role=\"alert\"") <
          strstr(tt_str_text(&page), "<figure"));
    CHECK(!has("http-equiv=\"refresh\""));
    make("{\"outcome\":\"done\"}", "{\"step\":7,\"train/loss\":2}\n");
    CHECK(!has("role=\"alert\"") && !has("http-equiv=\"refresh\""));
    make("{}", "{\"step\":7,\"train/loss\":2}\n");
    CHECK(!has("role=\"alert\"") && has("http-equiv=\"refresh\""));
    tt_str_fini(&page);
}

TEST(report_has_one_account_of_time)
{
    tt_report_files files = {.folder = "r"};
    tt_str_add(&files.metrics, "{\"step\":1,\"lr\":1}\n");
    tt_str_add(&files.facts,
               "{\"time\":{\"total\":10,\"computing\":9.76,\"other\":0.24}}");
    tt_str_add(&files.ranks,
               "{\"ranks\":[{\"rank\":0,\"exposed_seconds\":6.4,\"time\":"
               "{\"total\":10,\"computing\":3,\"network\":6,\"other\":1}},"
               "{\"rank\":1,\"time\":{\"total\":10,\"computing\":2,"
               "\"network\":8}}]}");
    tt_str_clear(&page);
    CHECK_OK(tt_report_page(&files, &page));
    CHECK(!has("97.6%") && has("computing 25.0%</span>"));
    CHECK(has("waiting for the network 70.0%</span>"));
    CHECK(has("computing 30.0%; waiting for the network 60.0%; starting"));
    CHECK(count("Where the time went") == 1);
    tt_str_fini(&files.metrics);
    tt_str_fini(&files.facts);
    tt_str_fini(&files.ranks);
    tt_str_fini(&page);
}

TEST(report_of_a_fork_shows_its_parent_in_grey)
{
    tt_report_files files = {.folder = "r"};
    tt_str_add(&files.metrics, "{\"step\":20,\"train/loss\":1,\"lr\":1}\n");
    tt_str_add(&files.facts, "{\"parent\":\"/runs/old <one>\"}");
    tt_str_add(&files.parent_metrics,
               "{\"step\":10,\"train/loss\":3,\"lr\":2}\n");
    tt_str_clear(&page);
    CHECK_OK(tt_report_page(&files, &page));
    CHECK(has("class=\"key parent\">old &lt;one&gt;, training</span>"));
    CHECK(has("class=\"line parent\"") && has("forked from old &lt;one&gt;"));
    tt_str rate = figure_of("Learning rate");
    CHECK(strstr(tt_str_text(&rate), "parent") == NULL);
    tt_str_fini(&rate);
    tt_str_fini(&files.metrics);
    tt_str_fini(&files.facts);
    tt_str_fini(&files.parent_metrics);
    tt_str_fini(&page);
}

TEST(report_sets_samples_apart_from_notes)
{
    tt_report_files files = {.folder = "r"};
    tt_str_add(&files.log, "2026-01-31T12:00:00Z step 10: sample\n"
                           "    To be: sample\n"
                           "    or <not>\n"
                           "2026-01-31T12:00:00Z step 10: a note\n"
                           "    of two lines\n"
                           "2026-01-31T12:00:00Z step 20: sample\n"
                           "    later");
    tt_str_clear(&page);
    CHECK_OK(tt_report_page(&files, &page));
    CHECK(has("<summary>step 20</summary><pre class=\"sample\">later"));
    CHECK(has("<summary>step 10</summary><pre class=\"sample\">To be: sample\n"
              "or &lt;not&gt;\n</pre>"));
    CHECK(strstr(tt_str_text(&page), ">later") <
          strstr(tt_str_text(&page), ">To be"));
    CHECK(has("step 10: a note\n    of two lines\n</pre>"));
    tt_str_fini(&files.log);
    tt_str_fini(&page);
}

TEST(report_compares_runs_on_one_scale_by_their_names)
{
    tt_report_compared run[2] = {
        {.name = "low <lr>", .folder = "runs/low", .status = "done"},
        {.name = "high", .folder = "runs/high", .status = "failed"}};
    const char *const values[] = {"0.001", NULL};
    const tt_report_difference difference = {"optim.lr", values};
    tt_str_add(&run[0].metrics, "{\"step\":0,\"seconds\":0,\"train/loss\":4}\n"
                                "{\"step\":10,\"seconds\":9,\"train/loss\":3}");
    tt_str_add(&run[1].metrics, "{\"step\":0,\"seconds\":0,\"train/loss\":2}\n"
                                "{\"step\":20,\"seconds\":9,\"train/loss\":1}");
    for (int i = 0; i < 2; i++)
        tt_str_add(&run[i].facts, "{\"unit\":\"tokens\",\"units\":32}");
    tt_str_clear(&page);
    CHECK_OK(tt_report_compare(&(tt_report_comparison){2, run, 1, &difference},
                               &page));
    CHECK(has("<h1>low &lt;lr&gt;, high</h1>"));
    CHECK(has("class=\"key r0\">low &lt;lr&gt;</span>"));
    CHECK(has("class=\"key r1\">high</span>"));
    CHECK(has("<th scope=\"row\">optim.lr</th><td>0.001</td><td>-</td>"));
    // One scale: the run of 10 steps ends in the middle, and lies above the other.
    tt_str chart = figure_of("Training loss");
    const char *text = tt_str_text(&chart);
    const char *linear = strstr(text, "class=\"x0 y1\"");
    CHECK(linear != NULL);
    const double first = first_y(linear, "class=\"line r0\"");
    const double second = first_y(linear, "class=\"line r1\"");
    CHECK_MSG(first < 100 && second > 400, "%g %g", first, second);
    const char *line = strstr(linear, "class=\"line r0\" d=\"M0 ");
    const char *by = line != NULL ? strchr(line, 'l') : NULL;
    by = by != NULL ? strstr(by, "d=\"") : NULL;
    by = by != NULL ? strchr(by, 'l') : NULL;
    CHECK_MSG(by != NULL && strtol(by + 1, NULL, 10) == 1000, "%.60s", line);
    CHECK(strstr(text, "class=\"sx2\"") != NULL);
    check_pictures();
    tt_str_fini(&chart);
    for (int i = 0; i < 2; i++) {
        tt_str_fini(&run[i].metrics);
        tt_str_fini(&run[i].facts);
    }
    tt_str_fini(&page);
    CHECK(tt_alloc_live() == 0);
}

// ---- workers -------------------------------------------------------------

static void make_workers(const char *workers)
{
    tt_report_files files = {.folder = "runs/one"};
    tt_str_add(&files.metrics, "{\"step\":1,\"train/loss\":2}\n");
    tt_str_add(&files.workers, workers);
    tt_str_clear(&page);
    CHECK_OK(tt_report_page(&files, &page));
    tt_str_fini(&files.metrics);
    tt_str_fini(&files.workers);
}

TEST(report_of_workers_has_their_staleness_and_their_time)
{
    make_workers("{\"staleness\":0.75,\"histogram\":[1,3],\"unit\":\"seconds\","
                 "\"bar\":0.5,\"slow\":\"slow: <worker 1>\",\"workers\":["
                 "{\"worker\":0,\"gradients\":2,\"time\":{\"computing\":3,"
                 "\"held\":1},\"bars\":[[500,0,0,500,0],[1000,0,0,0,0]]},"
                 "{\"worker\":1,\"bars\":[[0,250,0,0,0]]}]}");
    CHECK(has("<h2>Workers</h2>") && has("Slow: &lt;worker 1&gt;."));
    CHECK(has("staleness 1 <s class=train>3 gradients, 75.0%</s>"));
    CHECK(has("staleness of 4 gradients, mean 0.75 updates"));
    CHECK(has("key box t-data\">held by the clock"));
    CHECK(has("key box t-waste\">wasted") && !has("key box t-net"));
    CHECK(has("<td>75%</td>") && has("<td>25%</td>"));
    CHECK(has("seconds in steps") && has("0.5 s to 1.0 s"));
    check_pictures();
    tt_str_fini(&page);
    CHECK(tt_alloc_live() == 0);
}

// However many there are, and whatever stands there.
TEST(report_of_workers_is_bounded_and_takes_any_file)
{
    tt_str text = {0};
    tt_str_add(&text, "{\"staleness\":-3,\"histogram\":[");
    for (int i = 0; i < 500; i++)
        tt_str_addf(&text, "%s%d", i > 0 ? "," : "", i % 7);
    tt_str_add(&text, "],\"unit\":\"gradients\",\"bar\":1e300,\"workers\":[");
    for (int w = 0; w < 600; w++) {
        tt_str_addf(&text, "%s{\"worker\":%d,\"bars\":[", w > 0 ? "," : "", w);
        for (int b = 0; b < 200; b++)
            tt_str_addf(&text, "%s[%d,-5,1e99,900,null,\"x\",7]",
                        b > 0 ? "," : "", 300 + b);
        tt_str_add(&text, "]}");
    }
    tt_str_add(&text, "]}");
    make_workers(tt_str_text(&text));
    CHECK(page.n < 400000);
    CHECK(count("<i><b>staleness") <= 64);
    check_pictures();
    static const char *const odd[] = {
        "",
        "[]",
        "{\"workers\":3}",
        "{\"workers\":[]}",
        "{\"workers\":[7]}",
        "{\"workers\":[{}],\"histogram\":{}}",
        "{\"workers\":[{\"bars\":[3]}],\"bar\":1}",
        "{\"workers\":[{\"bars\":[[]"};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        make_workers(odd[i]);
        check_pictures();
    }
    tt_str_fini(&text);
    tt_str_fini(&page);
    CHECK(tt_alloc_live() == 0);
}
